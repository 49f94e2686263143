"""Functions as models: with their parameters, or around modules whose arrays are then the weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import jax

from .arrays import ArrayTree, is_array, is_weight
from .calls import trace_anew
from .jax_model import JaxModel
from .recognition import find_kind
from .subject import Leaf, Pass, Subject, join
from .wrapped import LIBRARIES, find_modules, is_equinox_wrapper, replace_modules

__all__ = ["function_subject", "list_modules"]

ReadModule: TypeAlias = Callable[[Any], Subject]


def function_subject(model: JaxModel, read_module: ReadModule) -> Subject:
    """Return the subject of a function: its floats and quantized numbers are parameters, other arrays buffers.

    If it has no parameters, the arrays of the modules that it leads to are its weights; ``read_module`` returns the
    subject of a module.
    """
    modules = list_modules(model)
    if modules:
        return _wrap_modules(model, modules, [read_module(module) for module in modules])
    if is_equinox_wrapper(model.function):
        from .equinox_modules import equinox_subject

        return equinox_subject(model.function)
    params = ArrayTree(model.params)

    def call(values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass) -> tuple[Any, Any]:
        if model.params is None:
            return how.call(model.function, args, kwargs), ()
        copy = params.replace_arrays(values)
        outputs = how.call(replace(model, params=copy), args, kwargs)
        return outputs, jax.tree.leaves(copy)

    leaves = [Leaf(path, value, is_weight(value)) for path, value in params.arrays]
    name = model.name or _find_name(model.function)
    return Subject("function", name, leaves, call, {"": name})


def list_modules(model: Any) -> list[Any]:
    """Return the module that a model is, or the modules that a function without parameters leads to."""
    if isinstance(model, JaxModel):
        return list_modules(model.function) if model.params is None else []
    return find_modules(model, _is_module)


def _is_module(value: Any) -> bool:
    """Return whether a value is a module; one of Equinox that has no arrays and is no layer, like a solver, is none."""
    kind = find_kind(value)
    if kind == "equinox":
        return callable(value) or any(map(is_array, jax.tree.leaves(value)))
    return kind in ("flax.nnx", "keras", "wrapped") or (kind == "flax.linen" and value.scope is not None)


class _Part(NamedTuple):
    """A module that a function leads to, its subject, and the path of the module among the layers."""

    module: Any
    subject: Subject
    path: str


def _wrap_modules(model: JaxModel, modules: Sequence[Any], subjects: Sequence[Subject]) -> Subject:
    """Return the subject of a function around modules: it has the arrays of the modules, and runs with copies.

    The layers of one module have their own paths, and the layers of several are in "module_0", "module_1" and so on.
    States, such as an optimizer's, are beside them.
    """
    name_of_function = _find_name(model.function) if _is_named(model.function) else ""
    main = [subject for subject in subjects if subject.kind != "state"]
    name = model.name or name_of_function or (main or subjects)[0].name
    paths = {id(subject): f"module_{index}" for index, subject in enumerate(main) if len(main) > 1}
    parts = [
        _Part(module, subject, paths.get(id(subject), "")) for module, subject in zip(modules, subjects, strict=True)
    ]

    def call(values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass) -> tuple[Any, Any]:
        def run(copies: Sequence[tuple[Any, Any]]) -> Any:
            return how.call(replace_modules(model.function, copies), args, kwargs)

        with trace_anew():  # a compiled method of a copy would find what JAX has compiled for an equal object
            return _run_with_copies(parts, values, how, run)

    leaves = [
        replace(leaf, path=(part.path, *leaf.path) if part.path else leaf.path)
        for part in parts
        for leaf in part.subject.leaves
    ]
    if len(main) == 1:
        return replace(main[0], name=name, call=call, leaves=leaves)
    kinds = {subject.kind for subject in main}
    layered = [part for part in parts if part.path]
    return Subject(
        kinds.pop() if len(kinds) == 1 else "function",
        name,
        leaves,
        call,
        {"": name, **{join(part.path, path): kind for part in layered for path, kind in part.subject.types.items()}},
        {join(part.path, path): layer for part in layered for path, layer in part.subject.layers.items()},
        {scope for part in layered for scope in part.subject.scopes},
    )


def _run_with_copies(
    parts: Sequence[_Part],
    values: Sequence[Any],
    how: Pass,
    run: Callable[[Sequence[tuple[Any, Any]]], Any],
    copies: Sequence[tuple[Any, Any]] = (),
) -> tuple[Any, list[Any]]:
    """Call ``run`` with pairs of modules and copies that hold these values; return its result and the changed state.

    A subject makes a copy of its module only for a function that it calls with the copy. So these calls are nested:
    inside the call for the first module the other modules are copied likewise, and the innermost one calls ``run``.
    """
    if not parts:
        return run(copies), []
    part, *others = parts
    count = len(part.subject.leaves)
    states: list[Any] = []

    def run_with_copy(copy: Any) -> Any:
        made = [*copies, (part.module, copy)]
        outputs, states_of_others = _run_with_copies(others, values[count:], how, run, made)
        states.extend(states_of_others)
        return outputs

    path = join(how.prefix, part.path)
    outputs, state = part.subject.call(values[:count], (), {}, replace(how, function=run_with_copy, prefix=path))
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
