"""The graphs of a program's functions, each as it runs in the place that calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profilerkit.process.cached import cached_property

from ..trace.graph_access import find_body, function_attributes
from ..trace.ownership import Owner

__all__ = ["Body", "find_call", "find_called", "is_compiled"]

#: The attributes with the functions of branches, if the names of nodes have another word for the branch.
_ATTRIBUTES = {"then": "then_branch", "else": "else_branch"}


@dataclass(eq=False)
class Body:
    """A function's graph as it runs in one place.

    Attributes:
        graph: The graph.
        owner: The call of the layer that calls the function.
        boundary: The index of the first operator that computes gradients: 0 if all do, the number of operators if none
            does.
    """

    graph: Any
    owner: Owner
    boundary: int

    @cached_property
    def operators(self) -> Mapping[str, Any]:
        """The operators by name, in the order of the graph."""
        return {operator.name: operator for operator in self.graph.get_operations()}

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The index of each operator by name."""
        return {name: index for index, name in enumerate(self.operators)}

    def is_gradient(self, name: str) -> bool:
        """Return whether an operator computes gradients.

        An operator that reads a variable after the forward pass does not: the step returns its result.
        """
        if name not in self.position or self.position[name] < self.boundary:
            return False
        is_step = self.boundary > 0
        return not (is_step and self.operators[name].type == "ReadVariableOp")


@dataclass(frozen=True)
class _Call:
    """An operator of a body that runs a function, and the graph of that."""

    operator: Any
    graph: Any


def find_call(body: Body, caller: str) -> _Call | None:
    """Return the call that the name of a caller stands for; None if the graphs have none.

    The caller is an operator, or one part of a loop or a branch: ``while/body``.
    """
    name, attribute = caller, "f"
    if caller not in body.operators:
        name, _, part = caller.rpartition("/")
        attribute = _ATTRIBUTES.get(part, part)
    operator = body.operators.get(name)
    function = None if operator is None else find_called(operator, attribute)
    graph = find_body(body.graph, function)
    return None if graph is None else _Call(operator, graph)


def find_called(operator: Any, attribute: str) -> str | None:
    """Return the name of the function that an operator calls; None if it calls none.

    Most operators have it in the attribute ``f``, loops in ``cond`` and ``body``, branches in ``then_branch`` and
    ``else_branch``. ``branch2`` is no attribute, but the third of ``branches``.
    """
    number = attribute.removeprefix("branch")
    try:
        if attribute.startswith("branch") and number.isdecimal():
            return str(operator.get_attr("branches")[int(number)].name)
        return str(operator.get_attr(attribute).name)
    except (ValueError, AttributeError, IndexError):
        return None


def is_compiled(graph: Any, function: str | None) -> bool:
    """Return whether XLA compiles a function."""
    attributes = {} if function is None else function_attributes(graph, function)
    return "_XlaMustCompile" in attributes and bool(attributes["_XlaMustCompile"].b)
