"""Which layer an operator belongs to.

Operators' names do not show it, since TensorFlow numbers scopes to make them unique. Instead, while a model is traced,
every call of a layer notes which operators it added to the graph; the innermost call owns an operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from profilerkit.costs import Cost
from profilerkit.process.cached import cached_property

from ..compat.graphs import read_forward_graph
from .gradient_names import find_traced_name, forward_names

__all__ = ["Owner", "Ownership"]


@dataclass(eq=False)
class Owner:
    """One call of a layer: path and call index; ``graph`` and ``start`` to ``end`` are the operators it added there.

    ``cost`` computes the cost of the whole call, where the layer's class has a formula.
    """

    path: str
    call: int
    layer_type: str = ""
    outer: Owner | None = None
    graph: Any = None
    start: int = 0
    end: int = 0
    cost: Callable[[], Cost | None] | None = None

    @property
    def cover(self) -> Owner | None:
        """The outermost call around it (or itself) whose cost a formula gives as a whole."""
        around = self.outer.cover if self.outer is not None else None
        return around or (self if self.cost is not None else None)

    @cached_property
    def of_gradient(self) -> Owner:
        """The same call as the owner of its gradient's operators, which no formula for the layer covers."""
        return Owner(self.path, self.call, self.layer_type)


@dataclass
class Ownership:
    """The layer calls of one trace, in the order in which they ended: inner ones before those around them."""

    calls: list[Owner] = field(default_factory=list)
    root: Owner = field(default_factory=lambda: Owner("", 0))
    _claims: dict[int, dict[str, Owner]] = field(default_factory=dict)
    _forward_graphs: dict[int, Any] = field(default_factory=dict)

    def clear(self) -> None:
        """Delete what was recorded: the model is traced anew."""
        self.calls.clear()
        self._claims.clear()
        self._forward_graphs.clear()

    def find(self, graph: Any, name: str, caller: Owner) -> Owner:
        """Return the owner of an operator of a graph, by its name: the caller of the graph unless a layer made it."""
        claimed = self._find_claims(graph).get(name)
        return claimed if claimed is not None else self._of_gradient(graph, name) or caller

    def note_gradient(self, graph: Any, forward: Any) -> None:
        """Note that a graph computes the gradients of another."""
        self._forward_graphs[id(graph)] = forward

    def _find_claims(self, graph: Any) -> dict[str, Owner]:
        claims = self._claims.get(id(graph))
        if claims is None:
            claims = self._claims[id(graph)] = self._claim(self._find_traced(graph))
        return claims

    def _find_traced(self, graph: Any) -> Any:
        """Return the traced graph: this one, unless it is a copy with the further outputs that a gradient needs."""
        name = find_traced_name(graph)
        copies = [owner.graph for owner in self.calls if find_traced_name(owner.graph) == name]
        return graph if not copies or any(copy is graph for copy in copies) else copies[0]

    def _claim(self, graph: Any) -> dict[str, Owner]:
        operators = graph.get_operations()
        owners: list[Owner | None] = [None] * len(operators)
        for owner in reversed(self.calls):  # outer calls first, so that inner ones take theirs from them
            if owner.graph is graph:
                owners[owner.start : owner.end] = [owner] * (min(owner.end, len(operators)) - owner.start)
        return {operator.name: owner for operator, owner in zip(operators, owners, strict=True) if owner is not None}

    def _of_gradient(self, graph: Any, name: str) -> Owner | None:
        """Return the owner of the forward operator whose gradient an operator computes, found by its name."""
        forward = self._forward_graphs.get(id(graph)) or read_forward_graph(graph) or graph
        claims = self._find_claims(forward)
        for candidate in forward_names(name):
            owner = claims.get(candidate)
            if owner is not None:
                return owner.of_gradient
        return None
