"""The calls of layers that the names of operators tell, along the nodes of a graph."""

from __future__ import annotations

from collections.abc import Sequence

from .scoped_calls import ROOT, Scope

__all__ = ["CallCounter"]


class CallCounter:
    """Counts the calls of layers along the nodes of a graph.

    A number other than 0 that the exporter gives a call is used: torch's older exporter numbers the further calls of a
    layer, but not of a layer with layers inside. Otherwise a layer is called again if it is entered again, after nodes
    outside of it, by the operator that its first call began with.
    """

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._first_operators: dict[str, str] = {}
        #: The layers around the last node that is in any, or in the model itself; and their calls, as they are counted.
        self._last: Sequence[Scope] = ()
        self._last_chain: tuple[Scope, ...] = (ROOT,)

    def enter(self, operator: str, around: Sequence[Scope], is_scoped: bool) -> tuple[Scope, ...]:
        """Return the calls of layers that a node is in, the model's own first.

        Args:
            operator: Its operator.
            around: The layers around it, from the outermost on, each with the number that the exporter gives the call.
            is_scoped: Whether the exporter tells its layer.
        """
        if not around and not is_scoped:
            return (ROOT,)  # a node that an exporter adds between the nodes of a layer does not end its call
        if around != self._last:
            self._last_chain = self._number_calls(operator, around)
            self._last = around
        return self._last_chain

    def _number_calls(self, operator: str, around: Sequence[Scope]) -> tuple[Scope, ...]:
        """Return the calls around a node; layers that are not around the last node are entered by its operator."""
        is_open = True
        chain = [ROOT]
        for depth, (path, number) in enumerate(around):
            is_open = is_open and depth < len(self._last) and self._last[depth].path == path
            if not is_open:
                self._count(path, operator, is_numbered=bool(number))
            chain.append(Scope(path, number or self._calls[path]))
        return tuple(chain)

    def _count(self, path: str, operator: str, *, is_numbered: bool) -> None:
        """Count that a layer is entered by an operator; its number, where it has one, tells the call."""
        if path not in self._calls:
            self._calls[path] = 0
            self._first_operators[path] = operator
        elif self._first_operators[path] == operator and not is_numbered:
            self._calls[path] += 1
