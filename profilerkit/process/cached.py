"""Properties that are computed once without a lock, and results that are cached as long as an object lives.

Before Python 3.12 `functools.cached_property` has a lock for all instances of a class. If a process forks while another
thread computes such a property, the child would wait for that lock forever.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

K = TypeVar("K")
T = TypeVar("T")

__all__ = ["cached_property", "once_for_each"]

#: The most results of one function that are cached, among them those of objects that are gone.
_MOST_CACHED = 10_000

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # the name in functools
        """A property whose value is stored in the instance's ``__dict__``; two threads may both compute it."""

        def __init__(self, function: Any) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._function(instance)
            return value


def once_for_each(function: Callable[[K], T]) -> Callable[[K], T]:
    """Call a function of one object (a class, say) once for each object, and cache the result while the object lives.

    `functools.lru_cache` would keep the user's classes alive, with everything that they refer to. Objects are compared
    by identity, not with ``==``. The result must not refer to the object.
    """
    # No weak dictionary, and no callback of a weak reference: an interrupt that Python raised there would be lost.
    cache: dict[int, tuple[weakref.ref[Any], T]] = {}

    def call(key: K) -> T:
        entry = cache.get(id(key))
        if entry is None or entry[0]() is not key:  # of an object that is gone
            result = function(key)
            if len(cache) >= _MOST_CACHED:
                cache.clear()
            entry = cache[id(key)] = weakref.ref(key), result
        return entry[1]

    return update_wrapper(call, function)
