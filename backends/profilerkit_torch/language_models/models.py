"""The language model to follow, made of a model or a configuration of transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from profilerkit import ArgumentError, InputError
from profilerkit.error_text import error_line

from ..model.modules import list_parameters
from .configurations import is_configuration
from .dtypes import DTYPES, default_dtype, find_dtype, unify_dtype
from .generating import find_generating_class, has_head

__all__ = ["add_head", "make_language_model"]


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
