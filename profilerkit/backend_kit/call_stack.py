"""The stack of running layers and the lists of layers by their paths, as the traces of all backends record them.

A shared layer has several paths; a call belongs to the path inside the layer that calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from msgspec import Struct

from ..trace.layer_paths import add_outer
from ..trace.records import LayerCall

__all__ = ["CallStack", "list_layers", "list_shown_layers", "note_unlisted"]

L = TypeVar("L")

#: Stands for a call whose inputs and outputs are not recorded yet, or never are.
_UNFINISHED = LayerCall((), ())


class _Outer(Struct, frozen=True, gc=False):
    """The running layer when a call began, and the ``id`` of the called layer."""

    path: str
    call: int
    layer_id: int


class CallStack:
    """Tracks the calls of a model's layers: the path of the innermost one, and how often each layer was called.

    Args:
        layers: Every layer with each of its paths; the root's path is empty.
    """

    def __init__(self, layers: Iterable[tuple[str, Any]]) -> None:
        self.paths: dict[int, list[str]] = {}
        for path, layer in layers:
            self.paths.setdefault(id(layer), []).append(path)
        self.calls: dict[str, list[LayerCall]] = {}
        self.current: str = ""
        #: The index of the running call of the innermost layer; -1 outside all calls.
        self.current_call: int = -1
        self._stack: list[_Outer] = []

    def knows(self, layer: Any) -> bool:
        """Return whether a layer belongs to the model."""
        return id(layer) in self.paths

    def begin(self, layer: Any) -> None:
        """Record that a call of a layer of the model begins."""
        paths = self.paths[id(layer)]
        path = paths[0] if len(paths) == 1 else self._choose_path(paths)
        calls = self.calls.get(path)
        if calls is None:
            calls = self.calls[path] = []
        self._stack.append(_Outer(self.current, self.current_call, id(layer)))
        calls.append(_UNFINISHED)
        self.current, self.current_call = path, len(calls) - 1

    def is_innermost(self, layer: Any) -> bool:
        """Return whether a layer is the innermost running one."""
        return bool(self._stack) and self._stack[-1].layer_id == id(layer)

    def note(self, call: LayerCall) -> None:
        """Record the inputs and outputs of the innermost layer's call."""
        self.calls[self.current][self.current_call] = LayerCall(call.inputs, call.outputs, self.caller)

    @property
    def caller(self) -> tuple[str, int] | None:
        """The path of the layer that called the innermost one, with the index of its call; None if no layer did."""
        outer = self._stack[-1]
        return (outer.path, outer.call) if outer.call >= 0 else None

    def end(self) -> None:
        """Record that the call of the innermost layer ends."""
        outer = self._stack.pop()
        self.current, self.current_call = outer.path, outer.call

    def _choose_path(self, candidates: list[str]) -> str:
        """Return the shortest path of a shared layer inside the innermost running layer; else the shortest of all."""
        prefix = f"{self.current}." if self.current else ""
        inner = [path for path in candidates if path.startswith(prefix) and path]
        return min(inner or candidates, key=lambda path: path.count("."))


def list_layers(model: L, children: Callable[[L], Iterable[tuple[str, L]]]) -> list[tuple[str, L]]:
    """Return every layer with each of its paths, the model first; ``children`` returns a layer's direct children.

    Layers may be nested deeper than Python's recursion limit.
    """
    layers: list[tuple[str, L]] = [("", model)]
    ancestors = {id(model)}
    stack = [("", id(model), iter(children(model)))]
    while stack:
        prefix, number, remaining = stack[-1]
        for name, child in remaining:
            if id(child) in ancestors:  # a layer that holds the one around it
                continue
            path = prefix + name.replace(".", "_")  # a dot separates the names in a path
            layers.append((path, child))
            inner = children(child)
            if inner:
                ancestors.add(id(child))
                stack.append((f"{path}.", id(child), iter(inner)))
                break
        else:
            ancestors.discard(number)
            stack.pop()
    return layers


def list_shown_layers(layers: Iterable[tuple[str, Any]], called: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield each layer with its first path, and a shared layer also with each other path that was called."""
    called_paths: set[str] | None = None
    seen: set[int] = set()
    for path, layer in layers:
        if id(layer) not in seen:
            seen.add(id(layer))
            yield path, layer
            continue
        if called_paths is None:
            called_paths = add_outer(called)
        if path in called_paths:
            yield path, layer


def note_unlisted(types: Iterable[str]) -> Iterator[str]:
    """Yield a note if layers of these types were called that the model does not list."""
    made = ", ".join(sorted(set(types)))
    if made:
        yield (
            f"the model calls layers that it does not register ({made}), from a plain list or made while it runs; "
            "their work is counted, their parameters are not"
        )
