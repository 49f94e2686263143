"""Classes that run ``__call__`` inside the scope of their layer; copies get them, and the user's classes stay."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from .scope_names import Marks

__all__ = ["PATH", "make_marked_class", "use_marks"]

#: The attribute that holds the path of a layer, unless its class does.
PATH = "_profilerkit_path"

_current: ContextVar[Marks | None] = ContextVar("profilerkit_jax_marks", default=None)
#: Held weakly: a subclass keeps its base class alive. JAX holds those that it flattens.
_classes: WeakKeyDictionary[type, WeakValueDictionary[str | None, type]] = WeakKeyDictionary()


@contextmanager
def use_marks(marks: Marks | None) -> Iterator[None]:
    """Let the marked classes open their scopes in this context."""
    token = _current.set(marks)
    try:
        yield
    finally:
        _current.reset(token)


def make_marked_class(cls: type, path: str | None = None) -> type:
    """Return the subclass whose calls open the scope of a layer; ``path`` is that of all its instances, if given.

    It is made once, and calls what ``__call__`` of the layer's class is at the time of the call.
    """
    by_path = _classes.setdefault(cls, WeakValueDictionary())
    marked = by_path.get(path)
    if marked is None:
        marked = by_path[path] = _make_class(cls, path)
    return marked


def _make_class(cls: type, path: str | None) -> type:
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
    return type(cls)(cls.__name__, (cls,), namespace)
