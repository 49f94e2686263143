"""The outputs of a model, in a form in which JAX sees their arrays.

JAX finds arrays in tuples, lists, dictionaries and registered classes. Work on arrays of other objects would be taken
for work that no output needs, and would not be counted.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator, MappingView
from itertools import islice
from types import ModuleType
from typing import Any

import jax
import numpy as np

from profilerkit import InputError

from .arrays import is_array

__all__ = ["make_visible"]

#: The most values that an iterator may yield, and the most objects that are searched for arrays.
_MOST_VALUES, _MOST_OBJECTS = 100_000, 100_000
#: Values of these types hold no arrays that belong to an output.
_PLAIN = (str, bytes, int, float, complex, type, type(None), ModuleType)


def make_visible(outputs: Any) -> Any:
    """Return outputs in which iterators are lists, and an object that hides traced arrays is the list of them.

    Raises `InputError` for a coroutine, for an iterator without end, and for an object that leads to too many others.
    """
    return jax.tree.map(_make_leaf_visible, outputs, is_leaf=_is_lazy)


def _is_lazy(value: Any) -> bool:
    return isinstance(value, (Iterator, MappingView))


def _make_leaf_visible(leaf: Any) -> Any:
    if is_array(leaf) or isinstance(leaf, _PLAIN):
        return leaf
    _refuse_asynchronous(leaf)
    if _is_lazy(leaf):
        return make_visible(_list_values(leaf))
    return _find_hidden_arrays(leaf) or leaf


def _refuse_asynchronous(value: Any) -> None:
    """Raise `InputError` for a value that waits to be run."""
    if inspect.iscoroutine(value):
        value.close()  # Python would warn that nobody has awaited it
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        raise InputError(
            "the model is asynchronous: what it returned waits to be run; give a function that returns its arrays, "
            "such as lambda x: asyncio.run(model(x))"
        )


def _list_values(iterable: Any) -> list[Any]:
    """Return the values of an iterator or a view; raises `InputError` for one without end."""
    values = list(islice(iterable, _MOST_VALUES + 1))
    if len(values) > _MOST_VALUES:
        raise InputError(f"the model returned an iterator of more than {_MOST_VALUES} values; let it return a list")
    return values


def _find_hidden_arrays(value: Any) -> list[Any]:
    """Return the traced arrays that an object leads to, once for each and in order.

    Raises `InputError` if they may not be all, as the work on the others would not be counted.
    """
    arrays: list[Any] = []
    seen: dict[int, Any] = {}  # holds the objects, as their ids would be given to others once they are gone
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, _PLAIN):
            continue
        if len(seen) == _MOST_OBJECTS:
            raise InputError(
                f"the model returned an object ({type(value).__name__}) that leads to over {_MOST_OBJECTS} objects, "
                "too many to search for arrays; let it return the arrays"
            )
        seen[id(part)] = part
        if isinstance(part, jax.core.Tracer):
            arrays.append(part)
        elif not is_array(part):
            waiting += reversed(_list_parts(part))  # the first is popped first
    return arrays


def _list_parts(value: Any) -> list[Any]:
    """Return the objects that an object leads to: attributes, elements, a function's closure; not its module."""
    if isinstance(value, np.ndarray):  # an array of objects, which it does not tell Python's garbage collector
        return list(value.flat)
    around = getattr(value, "__globals__", None)
    return [part for part in gc.get_referents(value) if part is not around]
