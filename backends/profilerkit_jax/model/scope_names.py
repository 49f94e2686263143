"""The names of the scopes in which layers are traced: the path of the layer, and a number of the call."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import jax

from profilerkit.backend_kit.failures import note_layer
from profilerkit.trace.records import LayerCall, TensorInfo

from .arrays import is_array

__all__ = ["EQUATION", "LastMark", "Marks", "read_last_mark", "read_layer"]

#: What marks begin with: no user's scope has such a name.
_PREFIX = f"profilerkit-{secrets.token_hex(4)}|"
#: What the scope of a single equation begins with, where equations have numbers (`meshes.numbered`).
EQUATION = "profilerkit-equation"


def read_layer(name: str) -> str | None:
    """Return the path of the layer that the name of a scope holds; None for a scope that is not ours."""
    if not name.startswith(_PREFIX):
        return None
    return name.removeprefix(_PREFIX).rpartition("|")[0]


class LastMark(NamedTuple):
    """The last mark among the scopes of a compiled instruction: the path of the layer, and the scopes inside of it."""

    layer: str
    inside: str


def read_last_mark(scopes: str) -> LastMark | None:
    """Return the last mark among the scopes of a compiled instruction; None if there is no mark.

    Transformations stand around marks there: ``jit(f)/transpose(jvp(MARK))/dot_general``.
    """
    _, prefix, rest = scopes.rpartition(_PREFIX)
    match = re.match(r"(.*?)\|\d+\)*(?:/|$)", rest) if prefix else None
    return None if match is None else LastMark(match[1], rest[match.end() :])


class Marks:
    """Opens the scopes of one trace, and notes the layers in the order in which they are first called.

    Attributes:
        types: The type of each layer that was called, by its path.
        calls: What went into each call of a layer and came out, by its path: a layer that passes its input on has no
            equations.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._running: list[tuple[str, Any]] = []
        self.types: dict[str, str] = {}
        self.calls: dict[str, list[LayerCall]] = {}

    def run(self, path: str, layer: Any, call: Callable[[], Any], inputs: Any) -> Any:
        """Run a call of a layer inside its scope; a layer's calls of its own methods open no further one."""
        if self._running and self._running[-1][1] is layer:
            return call()
        self.types.setdefault(path, type(layer).__name__)
        caller = (self._running[-1][0], 0) if self._running else None
        self._running.append((path, layer))
        try:
            with jax.named_scope(f"{_PREFIX}{path}|{next(self._numbers)}"):
                outputs = call()
        except Exception as error:
            note_layer(error, path)
            raise
        finally:
            self._running.pop()
        self.calls.setdefault(path, []).append(LayerCall(_infos(inputs), _infos(outputs), caller))
        return outputs


def _infos(values: Any) -> tuple[TensorInfo, ...]:
    arrays = (leaf for leaf in jax.tree.leaves(values) if is_array(leaf))
    return tuple(TensorInfo(tuple(map(int, array.shape)), str(array.dtype)) for array in arrays)
