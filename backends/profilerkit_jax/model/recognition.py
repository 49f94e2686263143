"""The kind of a model, by the modules that its classes come from: no framework is imported to find it out."""

from __future__ import annotations

import functools
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from profilerkit import BackendNotFoundError
from profilerkit.backend_kit.keras_kinds import is_keras, keras_backend

from .jax_model import JaxModel
from .wrapped import is_equinox_wrapper, list_names, read_closure

__all__ = ["FRAMEWORKS", "claims", "find_kind", "is_model"]

#: The packages whose classes mark a model of JAX, and the class of plain functions: for these `claims` has an advice.
FRAMEWORKS = ("profilerkit_jax", "jax", "jaxlib", "flax", "equinox", "keras", "haiku", "builtins.function")
#: The base class of a framework's modules, by the kind that `find_kind` returns: how the name of the Python module that
#: defines it begins, and the name of the class. Optimizers, generators and metrics of nnx have it too.
_CLASSES = {
    "flax.nnx": ("flax.nnx.pytreelib", "Pytree"),
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
            return kind
    if isinstance(model, type):  # a class is no model: its instances may be
        return ""
    is_transformed = type(model).__module__.partition(".")[0] in ("jax", "jaxlib", "flax") and callable(model)
    return "function" if is_transformed or isinstance(model, _FUNCTIONS) else ""


def is_model(model: Any) -> bool:
    """Return whether something is a model of JAX: a function, a module, or a `JaxModel`.

    An object of nnx that is no module and cannot be called, such as an optimizer or a metric, is none.
    """
    kind = find_kind(model)
    if kind == "flax.nnx" and not callable(model):
        return any(cls.__name__ == "Module" for cls in type(model).__mro__)
    return bool(kind)


def claims(model: Any) -> bool:
    """Return whether something is a model of JAX by its type alone, which a plain function is not.

    Raises `BackendNotFoundError` for an object of JAX that must be given in another form.
    """
    if type(model).__module__.partition(".")[0] == "haiku" and hasattr(model, "apply"):
        raise BackendNotFoundError(
            f"a {type(model).__name__} of Haiku is no model without its parameters; give profilerkit_jax.JaxModel("
            "haiku.without_apply_rng(model).apply, params), with params = model.init(key, *inputs)"
        )
    if not isinstance(model, FunctionType):
        return is_model(model)
    if _uses_jax(model):
        raise BackendNotFoundError(
            f"{model.__name__} is a plain function, which is a model of no framework by itself; give "
            "jax.jit(function), or backend='jax'; where its first argument has the parameters, "
            "profilerkit_jax.JaxModel(function, params)"
        )
    return False


def _uses_jax(function: FunctionType) -> bool:
    """Return whether JAX made a function, as by `jax.vmap`, or its code imports or reads something of JAX."""
    code, around = function.__code__, function.__globals__
    modules = [str(around.get("__name__")), *list_names(code, "IMPORT_NAME")]
    if any(map(_is_name_of_jax, modules)):
        return True
    values = [around[name] for name in list_names(code, "LOAD_GLOBAL") if name in around]
    return any(map(_comes_from_jax, [*values, *read_closure(function).values()]))


def _comes_from_jax(value: Any) -> bool:
    """Return whether something is a module, a function or a class of JAX, or an object of such a class."""
    if isinstance(value, ModuleType):
        return _is_name_of_jax(value.__name__)
    is_named = isinstance(value, (FunctionType, type)) and _is_name_of_jax(value.__module__)
    return is_named or _is_name_of_jax(type(value).__module__)


def _is_name_of_jax(module: object) -> bool:
    """Return whether the name of a module is JAX's."""
    return str(module).partition(".")[0] in ("jax", "jaxlib")
