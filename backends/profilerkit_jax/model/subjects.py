"""The subject of any model: which form it has decides who reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profilerkit import InputError
from profilerkit.error_text import shown

from .jax_model import JaxModel
from .recognition import find_kind
from .subject import Subject

__all__ = ["find_subject"]


def find_subject(model: Any) -> Subject:
    """Return the subject of a model.

    Raises `InputError` for a linen module without variables, and for an object that is no model of JAX.
    """
    kind = find_kind(model)
    if kind == "wrapped":
        return _find_wrapped(model)
    if kind == "flax.nnx":
        from .nnx_modules import nnx_subject

        return nnx_subject(model)
    if kind == "keras":
        from .keras_models import keras_subject

        return keras_subject(model)
    if kind == "equinox":
        from .equinox_modules import equinox_subject

        return equinox_subject(model)
    if kind == "flax.linen":
        return _read_linen(_unbind(model))
    if kind == "function":
        from .function_models import function_subject

        return function_subject(JaxModel(model), find_subject)
    raise InputError(
        f"{shown(model)} is no model of JAX; give a function, a jitted one, a module of Flax or Equinox, a Keras model "
        "on JAX, or JaxModel(function, params)"
    )


def _find_wrapped(model: JaxModel) -> Subject:
    """Return the subject of a `JaxModel`: around a module without other parameters, the subject of the module."""
    inner = find_kind(model.function)
    if inner == "flax.linen":
        return _read_linen(model)
    if inner in ("flax.nnx", "equinox", "keras") and model.params is None:
        return find_subject(model.function)
    from .function_models import function_subject

    return function_subject(model, find_subject)


def _unbind(module: Any) -> JaxModel:
    """Return a linen module that is bound to variables as a `JaxModel` that applies the module to them."""
    if module.scope is None:
        raise InputError(
            f"the linen module {type(module).__name__} has no variables; give JaxModel(module, variables) with the "
            "variables of module.init(...), or of jax.eval_shape(module.init, ...) if shapes are enough"
        )
    return JaxModel(*module.unbind())


def _read_linen(model: JaxModel) -> Subject:
    from .linen_modules import linen_subject

    if not isinstance(model.params, Mapping):
        raise InputError(
            f"params={shown(model.params)} for the linen module {type(model.function).__name__}: give its variables, "
            "a mapping such as {'params': ...}, as module.init(...) returns them"
        )
    return linen_subject(model)
