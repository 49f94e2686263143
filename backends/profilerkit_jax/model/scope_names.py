"""Marks: the names of the scopes that are opened around the calls of layers, to find the layers in what is traced.

JAX writes the scopes that an operator is made in on its equation, and XLA on its instructions. A mark holds the path of
the layer and a number of the call: ``profilerkit-1f2e3d4c|block.conv|7``.
"""

from __future__ import annotations

import functools
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import jax

from profilerkit.backend_kit.failures import note_layer
from profilerkit.trace.records import LayerCall, TensorInfo

from .arrays import is_array

__all__ = ["EQUATION", "PATH", "Marks", "make_marked_class", "read_last_mark", "read_layer", "use_marks"]

#: What marks begin with: no user's scope has such a name.
_PREFIX = f"profilerkit-{secrets.token_hex(4)}|"
#: What follows the prefix, in the scopes of a compiled instruction.
_BEHIND_PREFIX = re.compile(
    r"""
    (?P<layer>.*?)  # the path of the layer
    \|\d+           # the number of the call
    \)*             # the end of the transformations around the mark: ``transpose(jvp(MARK))``
    (?:/|$)         # the end of the scope: what follows is inside of it
    """,
    re.VERBOSE,
)
#: What the scope of a single equation begins with, where equations have numbers (`meshes.numbered`); it is no mark.
EQUATION = "profilerkit-equation"


def read_layer(name: str) -> str | None:
    """Return the path of the layer that a mark holds; None for the name of a scope that is no mark."""
    if not name.startswith(_PREFIX):
        return None
    return name.removeprefix(_PREFIX).rpartition("|")[0]


class _LastMark(NamedTuple):
    """The last mark among the scopes of a compiled instruction: the path of the layer, and the scopes inside of it."""

    layer: str
    inside: str


def read_last_mark(scopes: str) -> _LastMark | None:
    """Return the last mark among the scopes of a compiled instruction; None if there is no mark.

    Transformations stand around marks there: ``jit(f)/transpose(jvp(MARK))/dot_general``.
    """
    _, prefix, rest = scopes.rpartition(_PREFIX)
    match = _BEHIND_PREFIX.match(rest) if prefix else None
    return None if match is None else _LastMark(match["layer"], rest[match.end() :])


class _RunningCall(NamedTuple):
    """A call of a layer that has not returned yet."""

    path: str
    layer: Any


class Marks:
    """Opens the scopes with the marks of one trace, and notes the layers in the order in which they are first called.

    Attributes:
        types: The type of each layer that was called, by its path.
        calls: What went into each call of a layer and came out, by its path: a layer that passes its input on has no
            equations.
    """

    def __init__(self) -> None:
        self._numbers = count()
        #: The calls around what is traced now, the innermost last.
        self._running: list[_RunningCall] = []
        self.types: dict[str, str] = {}
        self.calls: dict[str, list[LayerCall]] = {}

    def run(self, path: str, layer: Any, call: Callable[[], Any], inputs: Any) -> Any:
        """Run a call of a layer inside its scope; a layer's calls of its own methods open no further one."""
        around = self._running[-1] if self._running else None
        if around is not None and around.layer is layer:
            return call()
        self.types.setdefault(path, type(layer).__name__)
        self._running.append(_RunningCall(path, layer))
        try:
            with jax.named_scope(f"{_PREFIX}{path}|{next(self._numbers)}"):
                outputs = call()
        except Exception as error:
            note_layer(error, path)
            raise
        finally:
            self._running.pop()
        # All calls count as made in the first call of the layer around them.
        caller = None if around is None else (around.path, 0)
        seen = LayerCall(_list_infos(inputs), _list_infos(outputs), caller)
        self.calls.setdefault(path, []).append(seen)
        return outputs


def _list_infos(values: Any) -> tuple[TensorInfo, ...]:
    """Return shape and dtype of every array in a tree of values."""
    arrays = (leaf for leaf in jax.tree.leaves(values) if is_array(leaf))
    return tuple(TensorInfo(tuple(map(int, array.shape)), str(array.dtype)) for array in arrays)


# Classes that run __call__ inside the scope of their layer; the user's classes stay -----------------------------------


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
