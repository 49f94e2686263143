"""The outputs of a model, in a form in which JAX sees their arrays.

JAX finds arrays in tuples, lists, dictionaries and registered classes. Work on arrays of other objects would be taken
for work that no output needs, and would not be counted.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, MappingView
from enum import Enum
from itertools import islice
from types import ModuleType
from typing import Any

import jax
import numpy as np

from profilerkit import InputError

from .arrays import is_array

__all__ = ["make_visible"]

#: The most values that an iterator may yield.
_MOST_VALUES = 100_000
#: Values of these types hold no arrays that belong to an output.
_PLAIN = (str, bytes, int, float, complex, type, type(None), ModuleType, Enum, np.dtype)


def make_visible(outputs: Any) -> Any:
    """Return outputs in which iterators are lists.

    Raises `InputError` for a coroutine, for an iterator without end, and for an object that may hide arrays.
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
    raise InputError(
        f"the model returned an object ({type(leaf).__name__}) in which JAX sees no arrays; register its class "
        "(jax.tree_util.register_dataclass), or let the model return the arrays"
    )


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
