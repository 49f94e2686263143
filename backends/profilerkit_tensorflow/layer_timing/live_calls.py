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

__all__ = ["count_calls", "find_working_layers"]

#: Operators that do not show whether a layer's call is needed: a variable is read even if nothing needs its value.
_UNINFORMATIVE = ("ReadVariableOp", "Placeholder", "NoOp", "Const")


def count_calls(program: Program, forward: TimedPasses) -> Counter[str]:
    """Return how often a pass called each layer: in a loop once for each run, in a branch not taken never."""
    runs = count_graph_runs(forward.passes[-1], forward.places)
    live = _LiveCalls()
    calls: Counter[str] = Counter()
    for call in program.calls.ownership.calls:
        if live.runs(call):
            calls[call.path] += 1 if call.graph is program.graph else runs.get(id(call.graph), 0)
    return +calls


def find_working_layers(program: Program) -> set[str]:
    """Return the layers that own operators which do any work."""
    ownership, live = program.calls.ownership, _LiveCalls()
    return {
        call.path
        for call in ownership.calls
        for operator in live.list_operators(call)
        if operator.type not in BOOKKEEPING and ownership.find(call.graph, operator, ownership.root) is call
    }


class _LiveCalls:
    """Finds the operators of layer calls that run; those that a graph's outputs need are found once for each graph."""

    def __init__(self) -> None:
        self._running: dict[int, set[str]] = {}

    def list_operators(self, call: Owner) -> list[Any]:
        """Return the operators of a call that run, with operators of the layers inside."""
        running = self._find_running(call.graph)
        return [operator for operator in _list_made(call) if operator.name in running]

    def runs(self, call: Owner) -> bool:
        """Return whether a call runs; a call without operators runs if the call around it does."""
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
