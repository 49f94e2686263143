"""Functions as models: with their parameters, or around modules whose arrays are then the weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import jax

from .arrays import ArrayTree, is_float
from .jax_model import JaxModel
from .recognition import find_kind
from .subject import Leaf, Pass, Subject
from .wrapped import LIBRARIES, find_modules, is_equinox_wrapper, replace_module

__all__ = ["function_subject"]

ReadModule: TypeAlias = Callable[[Any], Subject]


def function_subject(model: JaxModel, read_module: ReadModule) -> Subject:
    """Return the subject of a function: its float arrays are parameters, all other arrays buffers.

    If it has no parameters, the arrays of the modules that it leads to are its weights; ``read_module`` returns the
    subject of a module.
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
    """Return the subject of a function around modules: it has the arrays of the modules, and runs with copies."""
    name_of_function = _find_name(model.function) if _is_named(model.function) else ""
    name = model.name or name_of_function or subjects[0].name
    parts = list(map(_Part, modules, subjects))

    def call(values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass) -> tuple[Any, Any]:
        marks = how.marks if len(subjects) == 1 else None  # paths of two modules may be the same
        run = functools.partial(how.call, args=args, kwargs=kwargs)
        return _run_with_copies(model.function, parts, values, replace(how, marks=marks), run)

    if len(subjects) == 1:
        return replace(subjects[0], name=name, call=call)
    leaves = [
        replace(leaf, path=(f"module_{index}", *leaf.path))
        for index, subject in enumerate(subjects)
        for leaf in subject.leaves
    ]
    types = {"": name, **{f"module_{index}": subject.name for index, subject in enumerate(subjects)}}
    return Subject("function", name, leaves, call, types)


class _Part(NamedTuple):
    """A module that a function leads to, and its subject."""

    module: Any
    subject: Subject


def _run_with_copies(
    function: Any, parts: Sequence[_Part], values: Sequence[Any], how: Pass, run: Callable[[Any], Any]
) -> tuple[Any, list[Any]]:
    """Call a function with copies of modules that hold these values; return its result and the changed state.

    A subject makes a copy of its module only for a function that it calls with the copy. So these calls are nested:
    inside the call for the first module the other modules are copied likewise; the innermost call runs the function.
    """
    if not parts:
        return run(function), []
    (module, subject), *others = parts
    count = len(subject.leaves)
    states: list[Any] = []

    def run_with_copy(copy: Any) -> Any:
        replaced = replace_module(function, module, copy)
        outputs, states_of_others = _run_with_copies(replaced, others, values[count:], how, run)
        states.extend(states_of_others)
        return outputs

    outputs, state = subject.call(values[:count], (), {}, replace(how, function=run_with_copy))
    return outputs, [*states, *jax.tree.leaves(state)]


def _find_name(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = str(getattr(function, "__name__", type(function).__name__))
    return "function" if name == "<lambda>" else name


def _is_named(function: Any) -> bool:
    """Return whether a function has a name of the user's."""
    name = str(getattr(function, "__name__", ""))
    is_generated = not name or name.startswith(("__", "<unnamed"))  # a method such as __call__, a transformed lambda
    is_of_library = str(getattr(function, "__module__", "")).partition(".")[0] in LIBRARIES
    return not is_generated and not is_of_library
