"""The graphs of a program's functions, each as it runs in the place that calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..compat.graphs import read_forward_graph
from ..trace.graph_access import find_body, forward_function, function_attributes
from ..trace.ownership import Owner, Ownership

__all__ = ["Body", "Call", "find_boundary", "find_call", "find_called", "find_forward_graph", "is_compiled"]

#: The attribute of a loop or a branch that has the function, by what the names of the nodes in it call that.
_ATTRIBUTES = {"body": "body", "cond": "cond", "then": "then_branch", "else": "else_branch"}


@dataclass(eq=False)
class Body:
    """A function's graph as it runs in one place, called by ``owner``.

    From the operator of index ``boundary`` on it computes gradients, those of ``forward``.
    """

    graph: Any
    owner: Owner
    boundary: int
    forward: Body | None = None
    operators: Mapping[str, Any] = field(init=False)
    position: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        """Index the operators by name."""
        operators = self.graph.get_operations()
        self.operators = {operator.name: operator for operator in operators}
        self.position = {operator.name: index for index, operator in enumerate(operators)}

    def is_gradient(self, name: str) -> bool:
        """Return whether an operator computes gradients."""
        if self.position.get(name, -1) < self.boundary:
            return False
        return self.boundary == 0 or self.operators[name].type != "ReadVariableOp"  # what the step returns besides


@dataclass(frozen=True)
class Call:
    """An operator of a body that runs a function, and the graph of that."""

    operator: Any
    function: str | None
    graph: Any


def find_call(body: Body, caller: str) -> Call | None:
    """Return the call that the name of a caller stands for; None where the graphs have none.

    The caller is an operator, or one part of a loop or a branch: ``while/body``.
    """
    name, attribute = caller, "f"
    if caller not in body.operators:
        name, _, part = caller.rpartition("/")
        attribute = _ATTRIBUTES.get(part, part)
    operator = body.operators.get(name)
    if operator is None:
        return None
    function = find_called(operator, attribute)
    graph = find_body(body.graph, function)
    return None if graph is None else Call(operator, function, graph)


def find_called(operator: Any, attribute: str) -> str | None:
    """Return the name of the function that an operator calls; None where it calls none.

    Most have it in the attribute ``f``; of a branch by its number, ``branch0``, it is one of ``branches``.
    """
    try:
        if attribute.startswith("branch"):
            name: str = operator.get_attr("branches")[int(attribute.removeprefix("branch"))].name
        else:
            name = operator.get_attr(attribute).name
    except (ValueError, AttributeError, IndexError):
        return None
    return name


def is_compiled(graph: Any, function: str | None) -> bool:
    """Return whether XLA compiles a function."""
    attributes = {} if function is None else function_attributes(graph, function)
    return "_XlaMustCompile" in attributes and bool(attributes["_XlaMustCompile"].b)


def find_forward_graph(outer: Any, function: str | None, graph: Any) -> Any:
    """Return the graph whose gradients a function computes; None if it does not record that."""
    forward = read_forward_graph(graph)
    if forward is not None or function is None:
        return forward
    return find_body(outer, forward_function(outer, function))


def find_boundary(graph: Any, ownership: Ownership, forward_operators: int) -> int:
    """Return the index of the first operator that computes gradients, after the forward pass and the sum of outputs."""
    operators = graph.get_operations()
    whole = [call.end for call in ownership.calls if call.graph is graph and not call.path]
    start = min(max(whole, default=forward_operators), len(operators))
    for index in range(start, len(operators)):
        operator = operators[index]
        function = find_called(operator, "f")
        if operator.name.startswith("gradient_tape/"):
            return index
        if function is not None and forward_function(graph, function):
            return index
    return len(operators)
