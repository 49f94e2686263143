"""The kind of a model, by the modules that its classes come from: no framework is imported to find it out."""

from __future__ import annotations

import functools
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from profilerkit.backend_kit.keras_kinds import is_keras, keras_backend

from .jax_model import JaxModel
from .wrapped import is_equinox_wrapper

__all__ = ["FRAMEWORKS", "find_kind", "is_model"]

#: The packages whose classes mark a model of JAX.
FRAMEWORKS = ("profilerkit_jax", "jax", "jaxlib", "flax", "equinox", "keras")
#: The base class of the modules of each framework: the module that defines it, and its name.
_CLASSES = {
    "flax.nnx": ("flax.nnx.module", "Module"),
    "flax.linen": ("flax.linen.module", "Module"),
    "equinox": ("equinox", "Module"),
}
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, functools.partial)


def find_kind(model: Any) -> str:
    """Return "flax.nnx", "flax.linen", "equinox", "keras", "function" or "wrapped" (a `JaxModel`); empty for no model.

    A Keras model is one of JAX if Keras runs on JAX.
    """
    if isinstance(model, JaxModel):
        return "wrapped"
    if is_keras(model):
        return "keras" if keras_backend() == "jax" else ""
    if is_equinox_wrapper(model):
        return "function"
    for kind, (module, name) in _CLASSES.items():
        if any(cls.__name__ == name and cls.__module__.startswith(module) for cls in type(model).__mro__):
            return kind if callable(model) else ""
    if isinstance(model, type):  # a class is no model: its instances may be
        return ""
    is_transformed = type(model).__module__.partition(".")[0] in ("jax", "jaxlib", "flax") and callable(model)
    return "function" if is_transformed or isinstance(model, _FUNCTIONS) else ""


def is_model(model: Any) -> bool:
    """Return whether something is a model of JAX: a function, a module, or a `JaxModel`."""
    return bool(find_kind(model))
