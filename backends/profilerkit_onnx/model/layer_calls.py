"""Which call of each layer around it a node is in, counted along the nodes of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from profilerkit.backend_kit.scoped_calls import Scope

__all__ = ["CallCounter", "LayersAround"]


class LayersAround(NamedTuple):
    """The layers around a node, from the outermost on, without the model itself.

    Attributes:
        paths: The path of each layer.
        calls: Which call of each layer it is, from 0; empty where the exporter does not number them.
    """

    paths: tuple[str, ...]
    calls: tuple[int, ...] = ()


class CallCounter:
    """Counts the calls of layers along the nodes of a graph.

    Where the exporter numbers the calls, that is the number. Elsewhere a layer that is entered again, after nodes
    outside of it, by the operator that its first call began with, is called once more.
    """

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._first_operators: dict[str, str] = {}
        #: The layers around the last node that is in any, or in the model itself, and their calls.
        self._last = LayersAround(())
        self._last_chain: tuple[Scope, ...] = (Scope(""),)

    def enter(self, operator: str, around: LayersAround, is_scoped: bool) -> tuple[Scope, ...]:
        """Return the calls of layers that a node is in; ``is_scoped`` is a node whose layer the exporter tells."""
        if not around.paths and not is_scoped:
            return (Scope(""),)  # what an exporter adds between the nodes of a layer does not end its call
        if around != self._last:
            self._last_chain = self._number_calls(operator, around)
            self._last = around
        return self._last_chain

    def _number_calls(self, operator: str, around: LayersAround) -> tuple[Scope, ...]:
        """Return the calls around a node; layers that are not open yet are entered by its operator."""
        numbers = around.calls or (0,) * len(around.paths)
        open_layers = _count_common(around.paths, self._last.paths)
        chain = [Scope("")]
        for depth, (path, number) in enumerate(zip(around.paths, numbers, strict=True)):
            if depth >= open_layers:
                self._count(path, operator, is_numbered=bool(number))
            chain.append(Scope(path, number or self._calls[path]))
        return tuple(chain)

    def _count(self, path: str, operator: str, *, is_numbered: bool) -> None:
        """Count that a layer is entered by an operator; its number, where it has one, tells the call."""
        if path not in self._calls:
            self._calls[path], self._first_operators[path] = 0, operator
        elif self._first_operators[path] == operator and not is_numbered:
            self._calls[path] += 1


def _count_common(paths: Sequence[str], others: Sequence[str]) -> int:
    """Return how many of the first paths are the same."""
    count = 0
    for path, other in zip(paths, others, strict=False):
        if path != other:
            break
        count += 1
    return count
