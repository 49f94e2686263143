"""Classes whose calls open the scope of their layer, for the layers of a copy; the user's classes stay."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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

    It is made once, and calls the current ``__call__`` of the layer's class. Raises `TypeError` for a class with an own
    ``__init_subclass__`` of the user's.
    """
    _require_no_register(cls)

    @functools.wraps(cls.__call__)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        marks = _current.get()
        if marks is None:
            return cls.__call__(self, *args, **kwargs)
        layer_path = getattr(self, PATH) if path is None else path
        return marks.run(layer_path, self, lambda: cls.__call__(self, *args, **kwargs), (args, kwargs))

    namespace = {
        "__call__": call,
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    marked: type = type(cls)(cls.__name__, (cls,), namespace)
    return marked


#: The packages whose own ``__init_subclass__`` keeps no register: a layer may be ``Generic``, or a ``Protocol``.
_WITHOUT_REGISTER = ("builtins", "equinox", "flax", "typing", "typing_extensions")


def _require_no_register(cls: type) -> None:
    """Raise `TypeError` for a class whose subclasses the user's own code gets to know, often for a register of them."""
    for base in cls.__mro__:
        is_users = base.__module__.partition(".")[0] not in _WITHOUT_REGISTER
        if is_users and "__init_subclass__" in vars(base):
            raise TypeError(f"{base.__qualname__} has a __init_subclass__, which would run for the marked class too")
