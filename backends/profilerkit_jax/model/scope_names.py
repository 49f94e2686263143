"""Marks: the names of the scopes that are opened around the calls of layers, to find the layers in a trace.

JAX writes the scopes around an operator on its equation, and XLA on its instructions. A mark holds the path of the
layer and a number of the call: ``profilerkit-1f2e3d4c|block.conv|7``.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import jax

from profilerkit.backend_kit.failures import note_layer
from profilerkit.trace.records import TensorInfo

from .arrays import is_array

__all__ = ["EQUATION", "MarkedCall", "Marks", "read_last_mark", "read_layer"]

#: The beginning of all marks: no scope of a user begins like this.
_PREFIX = f"profilerkit-{secrets.token_hex(4)}|"
#: The numbers of calls, of all traces: JAX may keep a compiled function with the marks of an earlier trace.
_numbers = count()
#: The text after the prefix, in the scopes of a compiled instruction.
_BEHIND_PREFIX = re.compile(
    r"""
    (?P<layer>.*?)  # the path of the layer
    \|\d+           # the number of the call
    \)*             # the end of the transformations around the mark: ``transpose(jvp(MARK))``
    (?:/|$)         # the end of the scope: what follows is inside of it
    """,
    re.VERBOSE,
)
#: The beginning of the scope of a single equation, if equations have numbers (`meshes.numbered`); it is no mark.
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


@dataclass(eq=False)
class MarkedCall:
    """A call of a layer, as it was seen while the model was traced: a function that is compiled apart is traced once.

    Attributes:
        path: The path of the layer.
        around: The call that it was made in; None if no layer made it.
        inputs: The arrays among the arguments.
        outputs: The arrays that were returned.
    """

    path: str
    around: MarkedCall | None
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...] = ()


class _Running(NamedTuple):
    """A call of a layer that has not returned yet."""

    call: MarkedCall
    layer: Any


class Marks:
    """Opens the scopes with the marks of one trace, and notes the layers in the order in which they are first called.

    Attributes:
        classes: The class of each layer that was called, by its path.
        calls: The calls of layers, by their marks: a layer that passes its input on has no equations.
    """

    def __init__(self) -> None:
        self.classes: dict[str, type] = {}
        self.calls: dict[str, MarkedCall] = {}
        #: The calls that are being traced now, the innermost last.
        self._running: list[_Running] = []

    @property
    def types(self) -> dict[str, str]:
        """The type of each layer that was called, by its path."""
        return {path: layer_class.__name__ for path, layer_class in self.classes.items()}

    def run(self, path: str, layer: Any, call: Callable[[], Any], inputs: Any) -> Any:
        """Run a call of a layer inside its scope; a layer's calls of its own methods open no further one."""
        around = self._running[-1] if self._running else None
        if around is not None and around.layer is layer:
            return call()
        self.classes.setdefault(path, type(layer))
        mark = f"{_PREFIX}{path}|{next(_numbers)}"
        marked = self.calls[mark] = MarkedCall(path, None if around is None else around.call, _list_infos(inputs))
        self._running.append(_Running(marked, layer))
        try:
            with jax.named_scope(mark):
                outputs = call()
        except Exception as error:
            note_layer(error, path)
            raise
        finally:
            self._running.pop()
        marked.outputs = _list_infos(outputs)
        return outputs


def _list_infos(values: Any) -> tuple[TensorInfo, ...]:
    """Return shape and dtype of every array in a tree of values."""
    arrays = (leaf for leaf in jax.tree.leaves(values) if is_array(leaf))
    return tuple(TensorInfo(tuple(map(int, array.shape)), str(array.dtype)) for array in arrays)
