"""Functions as models: with their parameters, or around modules whose arrays are then the weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import jax

from .array_trees import ArrayTree
from .arrays import is_float
from .jax_model import JaxModel
from .recognition import find_kind
from .subject import Leaf, Pass, Subject
from .wrapped import LIBRARIES, find_modules, is_equinox_wrapper, replace_module

__all__ = ["function_subject"]

ReadModule: TypeAlias = Callable[[Any], Subject]


def function_subject(model: JaxModel, read_module: ReadModule) -> Subject:
    """Return the subject of a function: its float arrays are parameters, all other arrays buffers.

    Without parameters of its own, the arrays of the modules that it leads to are its weights; ``read_module`` returns
    the subject of one.
    """
    modules = find_modules(model.function, _is_module) if model.params is None else []
    if modules:
        return _wrap_modules(model, modules, [read_module(module) for module in modules])
    if is_equinox_wrapper(model.function):
        from .equinox_modules import equinox_subject

        return equinox_subject(model.function)
    params = ArrayTree(model.params)

    def call(
        values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass
    ) -> tuple[Any, tuple[()]]:
        if model.params is None:
            return how.call(model.function, args, kwargs), ()
        return how.call(replace(model, params=params.replace_arrays(values)), args, kwargs), ()

    leaves = [Leaf(path, value, is_float(value)) for path, value in params.arrays]
    name = model.name or _find_name(model.function)
    return Subject("function", name, leaves, call, {"": name})


def _is_module(value: Any) -> bool:
    kind = find_kind(value)
    return kind in ("flax.nnx", "equinox", "keras", "wrapped") or (kind == "flax.linen" and value.scope is not None)


def _wrap_modules(model: JaxModel, modules: Sequence[Any], subjects: Sequence[Subject]) -> Subject:
    """Return the subject of a function around modules: theirs are the arrays, and it runs with copies of them."""
    name = model.name or (_find_name(model.function) if _is_named(model.function) else subjects[0].name)

    def call(values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass) -> tuple[Any, Any]:
        states: list[Any] = []
        marks = how.marks if len(subjects) == 1 else None  # paths of two modules may be the same

        def run(function: Any, waiting: Sequence[tuple[Any, Subject]], values: Sequence[Any]) -> Any:
            """Run the function with copies of the modules that wait: each runs the next as its own function."""
            if not waiting:
                return how.call(function, args, kwargs)
            module, subject = waiting[0]
            count = len(subject.leaves)

            def run_with_copy(copy: Any) -> Any:
                return run(replace_module(function, module, copy), waiting[1:], values[count:])

            outputs, state = subject.call(values[:count], (), {}, replace(how, marks=marks, function=run_with_copy))
            states.extend(jax.tree.leaves(state))
            return outputs

        return run(model.function, list(zip(modules, subjects, strict=True)), values), states

    if len(subjects) == 1:
        return replace(subjects[0], name=name, call=call)
    leaves = [
        replace(leaf, path=(f"module_{index}", *leaf.path))
        for index, subject in enumerate(subjects)
        for leaf in subject.leaves
    ]
    types = {"": name, **{f"module_{index}": subject.name for index, subject in enumerate(subjects)}}
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
