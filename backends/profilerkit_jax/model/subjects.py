"""The subject of any model: which form it has decides who reads it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from profilerkit import InputError
from profilerkit.error_text import shown

from .arrays import is_array, is_float, key_text
from .jax_model import JaxModel
from .recognition import find_kind
from .subject import Leaf, Pass, Subject
from .wrapped import LIBRARIES, is_equinox_wrapper, module_in, with_module

__all__ = ["find_subject"]


def find_subject(model: Any) -> Subject:
    """Return the subject of a model.

    Raises `InputError` for a linen module without variables, and for what is no model of JAX.
    """
    kind = find_kind(model)
    if kind == "wrapped":
        inner = find_kind(model.function)
        if inner == "flax.linen":
            return _of_linen(model.function, model)
        if inner in ("flax.nnx", "equinox", "keras") and model.params is None:
            return find_subject(model.function)
        return _of_function(model)
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
        return _of_linen(model, None)
    if kind == "function":
        return _of_function(JaxModel(model))
    raise InputError(
        f"{shown(model)} is no model of JAX; give a function, a jitted one, a module of Flax or Equinox, a Keras model "
        "on JAX, or JaxModel(function, params)"
    )


def _of_linen(module: Any, model: JaxModel | None) -> Subject:
    from .linen_modules import linen_subject

    if model is None:
        if module.scope is None:
            raise InputError(
                f"the linen module {type(module).__name__} has no variables; give JaxModel(module, variables) with the "
                "variables of module.init(...), or of jax.eval_shape(module.init, ...) if shapes are enough"
            )
        module, variables = module.unbind()
        model = JaxModel(module, variables)
    if not isinstance(model.params, Mapping):
        raise InputError(
            f"params={shown(model.params)} for the linen module {type(module).__name__}: give its variables, a mapping "
            "such as {'params': ...}, as module.init(...) returns them"
        )
    return linen_subject(model)


def _of_function(model: JaxModel) -> Subject:
    """Return the subject of a function: its float arrays are parameters, all other arrays buffers."""
    modules = module_in(model.function, _is_module) if model.params is None else []
    if modules:
        return _around(model, modules)
    if is_equinox_wrapper(model.function):
        from .equinox_modules import equinox_subject

        return equinox_subject(model.function)
    leaves_with_paths, tree = jax.tree_util.tree_flatten_with_path(model.params)
    places = [index for index, (_, value) in enumerate(leaves_with_paths) if is_array(value)]
    everything = [value for _, value in leaves_with_paths]

    def call(
        values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass
    ) -> tuple[Any, tuple[()]]:
        if model.params is None:
            return how.call(model.function, args, kwargs), ()
        merged = list(everything)
        for index, value in zip(places, values, strict=True):
            merged[index] = value
        return how.call(replace(model, params=jax.tree_util.tree_unflatten(tree, merged)), args, kwargs), ()

    leaves = [
        Leaf(tuple(map(key_text, leaves_with_paths[index][0])), everything[index], is_float(everything[index]))
        for index in places
    ]
    name = model.name or _find_name(model.function)
    return Subject("function", name, leaves, call, {"": name})


def _is_module(value: Any) -> bool:
    kind = find_kind(value)
    return kind in ("flax.nnx", "equinox", "keras", "wrapped") or (kind == "flax.linen" and value.scope is not None)


def _around(model: JaxModel, modules: Sequence[Any]) -> Subject:
    """Return the subject of a function around modules: theirs are the arrays, and it runs with copies of them."""
    inner = [find_subject(module) for module in modules]
    sizes = [len(subject.leaves) for subject in inner]

    def call(values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass) -> tuple[Any, Any]:
        states: list[Any] = []

        def run(index: int, function: Any, start: int) -> Any:
            if index == len(inner):
                return how.call(function, args, kwargs)
            end = start + sizes[index]

            def with_copy(copy: Any) -> Any:
                return run(index + 1, with_module(function, modules[index], copy), end)

            marks = how.marks if len(inner) == 1 else None  # paths of two modules may be the same
            outputs, state = inner[index].call(values[start:end], (), {}, replace(how, marks=marks, function=with_copy))
            states.extend(jax.tree.leaves(state))
            return outputs

        return run(0, model.function, 0), states

    name = model.name or (_find_name(model.function) if _is_named(model.function) else inner[0].name)
    if len(inner) == 1:
        return replace(inner[0], name=name, call=call)
    leaves = [
        replace(leaf, path=(f"module_{index}", *leaf.path))
        for index, subject in enumerate(inner)
        for leaf in subject.leaves
    ]
    types = {"": name, **{f"module_{index}": subject.name for index, subject in enumerate(inner)}}
    return Subject("function", name, leaves, call, types)


def _find_name(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = str(getattr(function, "__name__", type(function).__name__))
    return "function" if name == "<lambda>" else name


def _is_named(function: Any) -> bool:
    """Return whether a function has a name of the user's."""
    name = str(getattr(function, "__name__", "__"))
    is_of_library = str(getattr(function, "__module__", "")).partition(".")[0] in LIBRARIES
    return not (name.startswith(("__", "<unnamed")) or is_of_library)
