"""The dtype of a language model: the dtype in which a configuration is built, and the dtype of a model."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from profilerkit import InputError

from ..model.modules import list_parameters
from .configurations import is_configuration

__all__ = ["DTYPES", "choose_dtype", "default_dtype", "find_dtype", "unify_dtype"]

#: The dtypes that activations and caches may have.
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def unify_dtype(config: Any, dtype: torch.dtype | None = None) -> tuple[Any, torch.dtype]:
    """Return a copy of a configuration whose parts all have one dtype, and this dtype.

    It is the requested dtype, else the dtype of the configuration, else of its text part, else of its first part that
    names a dtype, else float32. transformers loads all parts of a model in one dtype too, but would build a part in
    another dtype if the part names it. Raises `InputError` for a dtype in which no model can be built.
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
    """Return the dtype that a configuration names; if it names a dtype for each part, the dtype of the whole."""
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
    """Make new parameters in a dtype inside."""
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
    """Return the dtype of activations and cache of a model: its parameters' dtype, or float32 if this has 8 bits."""
    dtype: torch.dtype = getattr(torch, find_dtype(model))
    return dtype if dtype.itemsize > 1 else torch.float32
