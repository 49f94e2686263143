"""Classes whose calls open the scope of their layer, for the layers of a copy; the user's classes stay."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

from .scope_names import Marks

__all__ = ["PATH", "make_marked_class", "use_marks"]

#: The attribute that holds the path of a layer, unless its class does.
PATH = "_profilerkit_path"

_current: ContextVar[Marks | None] = ContextVar("profilerkit_jax_marks", default=None)


@contextmanager
def use_marks(marks: Marks | None) -> Iterator[None]:
    """Let the marked classes open their scopes in this context."""
    token = _current.set(marks)
    try:
        yield
    finally:
        _current.reset(token)


@functools.cache  # JAX never lets go of a class that it has flattened either
def make_marked_class(cls: type, path: str | None = None) -> type:
    """Return the subclass whose calls open the scope of a layer; all its instances have ``path``, if given.

    It is made once, and calls the current ``__call__`` of the layer's class.
    """

    @functools.wraps(cls.__call__)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        marks = _current.get()
        if marks is None:
            return cls.__call__(self, *args, **kwargs)
        where = path if path is not None else getattr(self, PATH)
        return marks.run(where, self, lambda: cls.__call__(self, *args, **kwargs), (args, kwargs))

    namespace = {
        "__call__": call,
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    marked: type = _derive_metaclass(type(cls))(cls.__name__, (cls,), namespace)
    return marked


# No marked class shows up in a user's `__init_subclass__` -------------------------------------------------------------

# It often keeps a register of classes. Python calls the first `__init_subclass__` behind a new class in its order of
# classes (mro): a class of ours is put there, which passes those of the user over.


class _Unseen:
    """Stands right behind a marked class, and calls the library's ``__init_subclass__`` in place of the user's."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        for last_of_users, base in pairwise(cls.__mro__[1:]):
            if base is object or base.__module__.partition(".")[0] in ("equinox", "flax"):
                super(last_of_users, cls).__init_subclass__()  # type: ignore[arg-type]
                return


def _derive_metaclass(metaclass: type) -> type:
    """Return a metaclass that puts `_Unseen` behind each class that it makes.

    As one of the bases it would give the class another layout than its layer has, whose class could not be changed.
    """

    def mro(cls: Any) -> list[type]:
        first, *others = type.mro(cls)
        return [first, _Unseen, *others]

    return type(metaclass.__name__, (metaclass,), {"mro": mro})
