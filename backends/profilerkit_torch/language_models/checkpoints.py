"""What a checkpoint of a language model has: the dtype of its parts, and how it stores weights.

Weights are stored as the files beside the configuration say, else as that says.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit import InputError, ModelTrace
from profilerkit_predict.checkpoints.headers import read_safetensors_folder
from profilerkit_predict.checkpoints.placing import PackedLayer, Placement, place_tensors
from profilerkit_predict.checkpoints.quantization import Formats, read_formats

from ..model.modules import list_parameters
from .configurations import find_folder, find_quantization, is_configuration

__all__ = ["DTYPES", "choose_dtype", "default_dtype", "find_dtype", "find_storage", "unify_dtype"]

#: The dtypes that activations and caches may have.
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def unify_dtype(config: Any, dtype: torch.dtype | None = None) -> tuple[Any, torch.dtype]:
    """Return a copy of a configuration whose parts all have one dtype, and that dtype.

    It is the dtype that is asked for, else that of the configuration, else that of its text, else that of its first
    part that names one, else float32. transformers loads all parts of a model in one dtype too; a part that names
    another would be built in that. Raises `InputError` for a dtype that no model can be built in.
    """
    config = copy.deepcopy(config)
    parts = list(_list_parts(config))
    text = getattr(config, "text_config", None)
    named = [part.dtype for part in (config, text, *parts[1:]) if getattr(part, "dtype", None) is not None]
    chosen = _read_dtype(dtype or next(iter(named), torch.float32))
    for part in parts:
        part.dtype = chosen
    return config, chosen


def _list_parts(config: Any) -> Iterator[Any]:
    """Yield a configuration and the configurations inside it, at any depth."""
    yield config
    for value in vars(config).values():
        if is_configuration(value):
            yield from _list_parts(value)


def _read_dtype(value: Any) -> torch.dtype:
    """Return the dtype that a configuration names; of one that has a dtype for each part, that of the whole."""
    if isinstance(value, dict):
        value = value.get("", "float32")
    dtype = getattr(torch, value, None) if isinstance(value, str) else value
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point or dtype.itemsize < 2:
        raise InputError(
            f"the configuration names the dtype {str(value).removeprefix('torch.')!r}, and models are built in "
            "float32, bfloat16, float16 or float64; write one of these as dtype, and what the weights are stored in as "
            "quantization_config"
        )
    return dtype


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Have new parameters in a dtype."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(previous)


def find_dtype(model: nn.Module) -> str:
    """Return the dtype that most elements of floating-point parameters have."""
    elements: dict[str, int] = {}
    for parameter in list_parameters(model):
        if parameter.is_floating_point():
            name = str(parameter.dtype).removeprefix("torch.")
            elements[name] = elements.get(name, 0) + parameter.numel()
    return max(elements, key=elements.__getitem__) if elements else "float32"


def choose_dtype(model: nn.Module) -> torch.dtype:
    """Return the dtype of activations and cache of a model: that of its parameters, unless these have 8 bits."""
    dtype: torch.dtype = getattr(torch, find_dtype(model))
    return dtype if dtype.itemsize > 1 else torch.float32


# How weights are stored -----------------------------------------------------------------------------------------------


class Storage(NamedTuple):
    """How weights are stored: in which formats, and why that is unknown; None if it is known.

    ``packed`` has the bytes of packed weights by layer, where the files of a checkpoint tell them; these have notes.
    """

    formats: Formats
    unknown: str | None
    packed: Mapping[str, PackedLayer] | None = None
    notes: tuple[str, ...] = ()


def find_storage(trace: ModelTrace, config: Any) -> Storage:
    """Return how the weights of a model are stored: by the files beside its configuration, else by what that says."""
    try:
        formats, unknown = read_formats(find_quantization(config)), None
    except InputError as error:
        formats, unknown = read_formats(None), str(error)
    placement = _place_files(trace, config)
    if placement is None:
        return Storage(formats, unknown)
    if not placement.layers:
        formats = read_formats(None)
    return Storage(formats, None, placement.layers, tuple(_note_files(placement)))


def _place_files(trace: ModelTrace, config: Any) -> Placement | None:
    """Return where the tensors of the files beside a configuration belong; None without files, or for other names."""
    folder = find_folder(config)
    tensors = read_safetensors_folder(folder) if folder is not None else ()
    layers = {
        layer.path: any(len(weight.shape) == 3 for weight in layer.parameters)
        for layer in trace.layers
        if layer.parameters and layer.path
    }
    placement = place_tensors(tensors, layers)
    total = sum(tensor.bytes for tensor in tensors)
    return placement if tensors and 2 * placement.left_over < total else None


def _note_files(placement: Placement) -> Iterator[str]:
    """Yield what the files of a checkpoint told."""
    yield "the bytes of packed weights are those of the checkpoint's files"
    if placement.left_over:
        yield f"{placement.left_over:,} bytes of these files are of no layer of this model, and not counted"
