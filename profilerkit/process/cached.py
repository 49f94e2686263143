"""Properties that are computed once, without a lock, and answers that are remembered while what they are about lives.

Before Python 3.12 `functools.cached_property` has a lock, one for all instances of a class: in a process that forks
while another thread computes such a property, the child would wait for it for ever.
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

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # as Python calls its own
        """What the function returns is kept in the instance's ``__dict__``; two threads may both compute it."""

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
    """Have a function asked once for each object, such as a class, and remember its answer while the object lives.

    `functools.lru_cache` would keep the user's classes alive, with all that they refer to. Objects are told apart by
    what they are and not by what they say they are equal to. The answer must not refer to the object.
    """
    known: dict[int, tuple[weakref.ref[Any], T]] = {}

    def remembered(held: K) -> T:
        found = known.get(id(held))
        if found is None:
            number = id(held)
            # The entry is gone before another object can get this number.
            found = known[number] = weakref.ref(held, lambda _: known.pop(number, None)), function(held)
        return found[1]

    return update_wrapper(remembered, function)
