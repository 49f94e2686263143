"""The calls of layers that run when their graph does: one step of a Keras RNN, for example, is traced and does not."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..operator_timing.node_owners import count_graph_runs
from ..operator_timing.session_passes import TimedPasses
from ..trace.operator_records import BOOKKEEPING
from ..trace.ownership import Owner
from ..trace.program import Program
from ..trace.running_order import list_running_operators

__all__ = ["LiveCalls"]

#: Operators that do not show whether a layer's call is needed: a variable is read even if nothing needs its value.
_UNINFORMATIVE = ("ReadVariableOp", "Placeholder", "NoOp", "Const")


class LiveCalls:
    """The calls of the layers of a program, as its graphs need them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        #: The names of the operators of a graph that run, by the ``id`` of the graph.
        self._running: dict[int, set[str]] = {}

    def count(self, forward: TimedPasses) -> Counter[str]:
        """Return how often a pass called each layer: in a loop once for each run, in a branch not taken never."""
        runs = count_graph_runs(forward.passes[-1], forward.places)
        calls: Counter[str] = Counter()
        for call in self._program.calls.ownership.calls:
            if self._runs(call):
                calls[call.path] += 1 if call.graph is self._program.graph else runs.get(id(call.graph), 0)
        return +calls

    def find_working_layers(self) -> set[str]:
        """Return the layers that own operators which do any work."""
        ownership = self._program.calls.ownership
        return {
            call.path
            for call in ownership.calls
            for operator in _list_made(call)
            if operator.name in self._find_running(call.graph) and operator.type not in BOOKKEEPING
            if ownership.find(call.graph, operator, ownership.root) is call
        }

    def _runs(self, call: Owner) -> bool:
        """Return whether a call runs; a call without operators runs if the call around it does."""
        operators = _list_made(call)
        if not operators:
            return call.outer is None or call.outer.graph is None or self._runs(call.outer)
        informative = [operator for operator in operators if operator.type not in _UNINFORMATIVE]
        return any(operator.name in self._find_running(call.graph) for operator in informative or operators)

    def _find_running(self, graph: Any) -> set[str]:
        """Return the names of the operators of a graph that its outputs need."""
        if id(graph) not in self._running:
            self._running[id(graph)] = {operator.name for operator in list_running_operators(graph, graph.outputs)}
        return self._running[id(graph)]


def _list_made(call: Owner) -> list[Any]:
    """Return all operators that a call has made."""
    operators: list[Any] = call.graph.get_operations()[call.start : call.end]
    return operators
