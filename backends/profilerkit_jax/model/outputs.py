"""What a model returns, in a form whose arrays JAX sees: an array that is hidden in an object would be lost.

JAX finds arrays in tuples, lists, dictionaries and registered classes. Without this, the work on any other would be
taken for work that no output needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, MappingView
from functools import partial
from itertools import islice
from types import FunctionType, MethodType
from typing import Any

import jax

from profilerkit import InputError
from profilerkit.process.object_facts import list_slots

from .arrays import is_array

__all__ = ["make_visible"]

#: The most values that an iterator may yield, and the most objects that are looked into for arrays.
_MOST_VALUES, _MOST_OBJECTS = 100_000, 10_000
_PLAIN = (str, bytes, int, float, complex, type, type(None))


def make_visible(outputs: Any) -> Any:
    """Return outputs in which iterators are lists, and an object that hides traced arrays is the list of them.

    Raises `InputError` for a coroutine, and for an iterator without end.
    """
    return jax.tree.map(_make_leaf_visible, outputs, is_leaf=_is_lazy)


def _is_lazy(value: Any) -> bool:
    return isinstance(value, (Iterator, MappingView))


def _make_leaf_visible(leaf: Any) -> Any:
    if is_array(leaf) or isinstance(leaf, _PLAIN):
        return leaf
    if inspect.isawaitable(leaf) or inspect.isasyncgen(leaf):
        if inspect.iscoroutine(leaf):
            leaf.close()
        raise InputError(
            "the model is asynchronous: what it returned waits to be run; give a function that returns its arrays, "
            "such as lambda x: asyncio.run(model(x))"
        )
    if _is_lazy(leaf):
        values = list(islice(leaf, _MOST_VALUES + 1))
        if len(values) > _MOST_VALUES:
            raise InputError(f"the model returned an iterator of more than {_MOST_VALUES} values; let it return a list")
        return make_visible(values)
    return _find_hidden_arrays(leaf) or leaf


def _find_hidden_arrays(value: Any) -> list[Any]:
    """Return the traced arrays that an object leads to, each once and in order."""
    arrays: list[Any] = []
    seen: dict[int, Any] = {}  # holds the objects, as their ids would be given to others once they are gone
    waiting = [value]
    while waiting and len(seen) < _MOST_OBJECTS:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, _PLAIN):
            continue
        seen[id(part)] = part
        if isinstance(part, jax.core.Tracer):
            arrays.append(part)
        elif not is_array(part):
            waiting += reversed(_list_parts(part))  # the first is popped first
    return arrays


def _list_parts(value: Any) -> list[Any]:
    """Return the attributes and elements of an object, and what a function closes over."""
    if isinstance(value, FunctionType):
        closed_over = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        return [*closed_over, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    parts: list[Any] = []
    if isinstance(value, partial):
        parts = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, Collection):
        parts = list(islice(value, _MOST_OBJECTS))
    names = [slot.__name__ for slot in list_slots(type(value))]
    slots = [getattr(value, name) for name in names if hasattr(value, name)]
    return [*parts, *getattr(value, "__dict__", {}).values(), *slots]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
