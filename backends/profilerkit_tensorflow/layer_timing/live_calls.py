"""Which calls of layers run when their graph does: some are traced, and nothing needs their results."""

from __future__ import annotations

from typing import Any

from ..trace.graph_access import list_running_operators
from ..trace.ownership import Owner
from ..trace.program import Program
from ..trace.records import BOOKKEEPING

__all__ = ["LiveCalls", "find_working_layers"]

#: Operators that do not show whether a layer's call is needed: a variable is read even if nothing needs its value.
_UNINFORMATIVE = ("ReadVariableOp", "Placeholder", "NoOp", "Const")


class LiveCalls:
    """Tells of calls of layers which of their operators run; one step of a Keras RNN, for one, is traced and does not.

    The operators that a graph's outputs need are found once for each graph.
    """

    def __init__(self) -> None:
        self._running: dict[int, set[str]] = {}

    def list_operators(self, call: Owner) -> list[Any]:
        """Return the operators of a call that run, those of the layers inside included."""
        running = self._find_running(call.graph)
        return [operator for operator in _list_made(call) if operator.name in running]

    def runs(self, call: Owner) -> bool:
        """Return whether a call runs; one without operators runs if the call around it does."""
        operators = _list_made(call)
        if not operators:
            return call.outer is None or call.outer.graph is None or self.runs(call.outer)
        running = self._find_running(call.graph)
        informative = [operator for operator in operators if operator.type not in _UNINFORMATIVE]
        return any(operator.name in running for operator in informative or operators)

    def _find_running(self, graph: Any) -> set[str]:
        """Return the names of the operators of a graph that run."""
        if id(graph) not in self._running:
            operators = list_running_operators(graph, graph.outputs)
            self._running[id(graph)] = {operator.name for operator in operators}
        return self._running[id(graph)]


def _list_made(call: Owner) -> list[Any]:
    """Return all operators that a call has made."""
    operators: list[Any] = call.graph.get_operations()[call.start : call.end]
    return operators


def find_working_layers(program: Program) -> set[str]:
    """Return the layers that own operators which do any work."""
    ownership, live = program.calls.ownership, LiveCalls()
    working = set()
    for call in ownership.calls:
        for operator in live.list_operators(call):
            if operator.type in BOOKKEEPING:
                continue
            if ownership.find(call.graph, operator.name, ownership.root) is call:
                working.add(call.path)
    return working
