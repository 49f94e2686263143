"""Which layer of a model runs, and under which path: what every backend's trace keeps track of in the same way.

A shared layer has several paths; a call belongs to the path inside the layer that calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ..trace.records import LayerCall

__all__ = ["CallStack", "named_layers", "shown_layers", "tensors_in"]

L = TypeVar("L")

#: Stands for a call until it is noted what went through it; for good where it is not.
_UNFINISHED = LayerCall((), ())


class CallStack:
    """Follows the calls of a model's layers: the path of the innermost one, and how often each was called.

    Args:
        layers: Every layer under every path it has, the root's path being empty.
    """

    def __init__(self, layers: Iterable[tuple[str, Any]]) -> None:
        self.paths: dict[int, list[str]] = {}
        for path, layer in layers:
            self.paths.setdefault(id(layer), []).append(path)
        self.calls: dict[str, list[LayerCall]] = {}
        self.current = ""
        #: Which call of the innermost layer is under way; -1 outside all calls.
        self.current_call = -1
        self._stack: list[tuple[str, int, int]] = []

    def knows(self, layer: Any) -> bool:
        """Say whether a layer is the model's."""
        return id(layer) in self.paths

    def begin(self, layer: Any) -> None:
        """Note that a layer of the model begins."""
        paths = self.paths[id(layer)]
        path = paths[0] if len(paths) == 1 else self._path_among(paths)
        calls = self.calls.get(path)
        if calls is None:
            calls = self.calls[path] = []
        self._stack.append((self.current, self.current_call, id(layer)))
        calls.append(_UNFINISHED)
        self.current, self.current_call = path, len(calls) - 1

    def is_innermost(self, layer: Any) -> bool:
        """Say whether a layer is the one that began last and has not ended."""
        return bool(self._stack) and self._stack[-1][2] == id(layer)

    def note(self, call: LayerCall) -> None:
        """Keep what went through the innermost layer."""
        self.calls[self.current][self.current_call] = LayerCall(call.inputs, call.outputs, self.caller)

    @property
    def caller(self) -> tuple[str, int] | None:
        """The layer that called the innermost one, and which of its calls did; None where nobody did."""
        path, index, _ = self._stack[-1]
        return (path, index) if index >= 0 else None

    def end(self) -> None:
        """Note that the innermost layer ends."""
        self.current, self.current_call, _ = self._stack.pop()

    def _path_among(self, candidates: list[str]) -> str:
        inside = f"{self.current}." if self.current else ""
        here = [path for path in candidates if path.startswith(inside) and path]
        return min(here or candidates, key=lambda path: path.count("."))


def named_layers(model: L, children: Callable[[L], Iterable[tuple[str, L]]]) -> list[tuple[str, L]]:
    """Return every layer under every path it has, the model itself first; ``children`` gives those right inside one.

    Layers may be nested deeper than Python lets functions call each other.
    """
    layers: list[tuple[str, L]] = [("", model)]
    above = {id(model)}
    inside = [("", id(model), iter(children(model)))]
    while inside:
        start, number, rest = inside[-1]
        for name, child in rest:
            if id(child) in above:  # a layer that holds the one around it
                continue
            path = start + name.replace(".", "_")  # a dot parts the names of layers
            layers.append((path, child))
            inner = children(child)
            if inner:
                above.add(id(child))
                inside.append((f"{path}.", id(child), iter(inner)))
                break
        else:
            above.discard(number)
            inside.pop()
    return layers


def tensors_in(structure: Any, is_tensor: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield every tensor in a nested structure: tuples, lists, sets, mappings and dataclasses."""
    if is_tensor(structure):
        yield structure
        return
    parts: Iterable[Any] = ()
    if isinstance(structure, Mapping):
        parts = structure.values()
    elif isinstance(structure, (list, tuple, set)):
        parts = structure
    elif hasattr(structure, "__dataclass_fields__"):
        parts = [getattr(structure, name, None) for name in structure.__dataclass_fields__]
    for part in parts:
        yield from tensors_in(part, is_tensor)


def shown_layers(
    layers: Iterable[tuple[str, Any]], calls: Mapping[str, Iterable[LayerCall]]
) -> Iterator[tuple[str, Any]]:
    """Yield each layer under its first path, and a shared one under each further path that a call came through."""
    passed: set[str] | None = None
    met: set[int] = set()
    for path, layer in layers:
        if id(layer) not in met:
            met.add(id(layer))
            yield path, layer
            continue
        if passed is None:
            passed = {path[:end] for path in calls for end, sign in enumerate(path) if sign == "."} | calls.keys()
        if path in passed:
            yield path, layer
