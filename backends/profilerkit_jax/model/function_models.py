"""Functions as models: with their parameters, or around modules whose arrays are then the weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import jax

from .arrays import ArrayTree, is_array, is_weight
from .calls import trace_anew
from .jax_model import JaxModel
from .recognition import find_kind
from .subject import Leaf, OpenedModel, Pass, Subject, join
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

    @contextmanager
    def open_copy(values: Sequence[Any], how: Pass) -> Iterator[OpenedModel]:
        copy = params.replace_arrays(values)
        with_copy = model.function if model.params is None else replace(model, params=copy)
        yield OpenedModel(with_copy, lambda: jax.tree.leaves(copy))

    leaves = [Leaf(path, value, is_weight(value)) for path, value in params.arrays]
    name = model.name or _find_name(model.function)
    return Subject("function", name, leaves, open_copy, {"": name})


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

    @contextmanager
    def open_copies(values: Sequence[Any], how: Pass) -> Iterator[OpenedModel]:
        remaining = iter(values)
        # A compiled method of a copy would find what JAX has compiled for an equal object.
        with trace_anew(), ExitStack() as stack:
            opened = [
                stack.enter_context(
                    part.subject.open(
                        list(islice(remaining, len(part.subject.leaves))),
                        replace(how, prefix=join(how.prefix, part.path)),
                    )
                )
                for part in parts
            ]
            copies = [(part.module, one.model) for part, one in zip(parts, opened, strict=True)]
            yield OpenedModel(
                replace_modules(model.function, copies), lambda: chain.from_iterable(one.read_state() for one in opened)
            )

    leaves = [
        replace(leaf, path=(part.path, *leaf.path) if part.path else leaf.path)
        for part in parts
        for leaf in part.subject.leaves
    ]
    if len(main) == 1:
        return replace(main[0], name=name, open=open_copies, leaves=leaves, arrange=None)
    kinds = {subject.kind for subject in main}
    layered = [part for part in parts if part.path]
    return Subject(
        kinds.pop() if len(kinds) == 1 else "function",
        name,
        leaves,
        open_copies,
        {"": name, **{join(part.path, path): kind for part in layered for path, kind in part.subject.types.items()}},
        {join(part.path, path): layer for part in layered for path, layer in part.subject.layers.items()},
        {scope for part in layered for scope in part.subject.scopes},
    )


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
