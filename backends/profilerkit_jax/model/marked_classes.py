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

    It is made once, and calls the current ``__call__`` of the layer's class.
    """

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
    marked: type = _derive_metaclass(type(cls))(cls.__name__, (cls,), namespace)
    return marked


# No marked class shows up in a user's `__init_subclass__` -------------------------------------------------------------

# It often keeps a register of classes. The library's own has to run, as it makes a class known to JAX. Python calls the
# first one behind the new class in the order of its classes (mro), and each calls the next by ``super()``. So we put a
# class of ours before each of the user's that has one: it calls the next one behind that class.


def _derive_metaclass(metaclass: Any) -> type:
    """Return a metaclass that passes over the user's `__init_subclass__` in the order of each class that it makes.

    As one of the bases, a class of ours would give the new class another layout than its layer has, whose class could
    not be changed.
    """

    def mro(cls: Any) -> list[type]:
        order: list[type] = []
        for base in metaclass.mro(cls):
            if _has_users_init_subclass(base):
                order.append(_make_bypass(base))
            order.append(base)
        return order

    return type(metaclass.__name__, (metaclass,), {"mro": mro})


def _has_users_init_subclass(base: type) -> bool:
    is_users = base.__module__.partition(".")[0] not in ("builtins", "equinox", "flax")
    return is_users and "__init_subclass__" in vars(base)


def _make_bypass(passed: Any) -> type:
    """Return a class whose `__init_subclass__` calls the next one behind ``passed``."""

    def init_subclass(cls: type, **options: Any) -> None:
        super(passed, cls).__init_subclass__(**options)

    return type("Bypass", (), {"__slots__": (), "__init_subclass__": init_subclass})
