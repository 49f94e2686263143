"""The language model to follow, made of a model or a configuration of transformers, and its dtype."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from profilerkit import ArgumentError, InputError
from profilerkit.error_text import error_line

from ..model.modules import list_parameters
from .configurations import is_configuration
from .generating import find_generating_class, has_head

__all__ = ["DTYPES", "add_head", "choose_dtype", "default_dtype", "find_dtype", "make_language_model", "unify_dtype"]


def make_language_model(model: Any, dtype: str | None) -> nn.Module:
    """Return the language model of a model or configuration of transformers, in a dtype.

    A configuration becomes a model on the meta device; so does a model without a head, if it has no values, and a model
    of another dtype. Any other model is returned as it is. Raises `InputError` for a value that is no language model.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ArgumentError(f"dtype={dtype!r}: give {', '.join(DTYPES)}, the dtype of activations and cache")
    if is_configuration(model):
        return _build(find_generating_class(model), model, dtype)
    if not isinstance(model, nn.Module):
        raise InputError(
            f"{type(model).__name__} is not a model that generates text; give a language model of transformers or its "
            "configuration, or use profile() for this one"
        )
    config = getattr(model, "config", None)
    if not is_configuration(config):
        raise InputError(
            f"{type(model).__name__} is not a model of transformers, whose cache and configuration llm reads; give a "
            "language model of transformers, its configuration or hf:NAME, or use profile() for this one"
        )
    if _is_on_meta(model) and not has_head(model):
        return _build(find_generating_class(config), config, dtype)
    if dtype is not None and find_dtype(model) != dtype:
        return _build(type(model), config, dtype)
    return model


def add_head(model: Any) -> Any:
    """Return a model of transformers with a new head for language, all weights random; unchanged if it has a head.

    It is for models that a loader built from a configuration. A model on the meta device stays there.
    """
    config = getattr(model, "config", None)
    if not isinstance(model, nn.Module) or not is_configuration(config) or has_head(model):
        return model
    device = "meta" if _is_on_meta(model) else "cpu"
    with torch.random.fork_rng(devices=[]):
        return _build(find_generating_class(config), config, find_dtype(model), device)


def _is_on_meta(model: nn.Module) -> bool:
    return any(parameter.is_meta for parameter in list_parameters(model))


def _build(kind: type, config: Any, dtype: str | None, device: str = "meta") -> nn.Module:
    """Return a model of a class by a configuration, in a dtype or in the dtype of the configuration."""
    config, chosen = unify_dtype(config, DTYPES[dtype] if dtype else None)
    try:
        with default_dtype(chosen), torch.device(device):
            model: nn.Module = kind(config)
    except MemoryError:
        raise
    except Exception as error:  # an incomplete configuration, or a missing library for images
        raise InputError(
            f"transformers cannot build {kind.__name__} of this {type(config).__name__}: {type(error).__name__}: "
            f"{error_line(error)}; give a folder with a config.json that is whole, or the model"
        ) from error
    return model.eval()


# Dtypes ---------------------------------------------------------------------------------------------------------------


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
