"""Which layer an operator belongs to.

Operators' names do not tell, since TensorFlow makes scopes unique as it likes. Instead, while a model is traced, every
call of a layer notes which operators it added to the graph; the innermost call owns an operator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from profilerkit.cost import Cost

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
    def covered_by(self) -> Owner | None:
        """The outermost call around it (or itself) whose cost a formula gives as a whole."""
        around = self.outer.covered_by if self.outer is not None else None
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
        """Forget what was noted: the model is traced anew."""
        self.calls.clear()
        self._claims.clear()
        self._forward_graphs.clear()

    def of(self, graph: Any, name: str, caller: Owner) -> Owner:
        """Return the owner of an operator of a graph, by its name: the caller of the graph unless a layer made it."""
        found = self._claims_of(graph).get(name)
        return found if found is not None else self._of_gradient(graph, name) or caller

    def note_gradient(self, graph: Any, forward: Any) -> None:
        """Note that a graph computes the gradients of another."""
        self._forward_graphs[id(graph)] = forward

    def _claims_of(self, graph: Any) -> dict[str, Owner]:
        claims = self._claims.get(id(graph))
        if claims is None:
            claims = self._claims[id(graph)] = self._claimed(self._traced(graph))
        return claims

    def _traced(self, graph: Any) -> Any:
        """Return the graph itself, or the one that was traced where it is a copy that a gradient needs more of."""
        name = graph.name.removesuffix(_REWRITTEN)
        known = [owner.graph for owner in self.calls if owner.graph.name.removesuffix(_REWRITTEN) == name]
        return graph if not known or any(each is graph for each in known) else known[0]

    def _claimed(self, graph: Any) -> dict[str, Owner]:
        operators = graph.get_operations()
        owners: list[Owner | None] = [None] * len(operators)
        for owner in reversed(self.calls):  # outer calls first, so that inner ones take theirs from them
            if owner.graph is graph:
                owners[owner.start : owner.end] = [owner] * (min(owner.end, len(operators)) - owner.start)
        return {operator.name: owner for operator, owner in zip(operators, owners, strict=True) if owner is not None}

    def _of_gradient(self, graph: Any, name: str) -> Owner | None:
        """Return the owner of the forward operator whose gradient an operator computes, as its name tells."""
        forward_graph = self._forward_graphs.get(id(graph)) or getattr(graph, "_forward_graph", None) or graph
        claims = self._claims_of(forward_graph)
        for forward in _forward_names(name):
            found = claims.get(forward)
            if found is not None:
                return found.of_gradient
        return None


#: What TensorFlow adds to the name of a branch's or a loop's body to have it give what the gradient needs.
_REWRITTEN = "_rewritten"
_OF_TAPE = re.compile(r"(?:.*/)?gradient_tape/(.+)")
_OF_FUNCTION = re.compile(r"(?:.*/)?gradients/(.+)")
_GRADIENT_PART = re.compile(r"_grad(?:_\d+)?$")


def _forward_names(name: str) -> Iterator[str]:
    """Yield the names that the forward operator may have, the longest first.

    The tape calls the gradient of ``a/b/Conv2D`` something inside ``gradient_tape/a/b/Conv2D/``, where any part may
    have got a number to make it unique. In the gradient of a called function, of a loop's body or of a branch it is
    something inside ``gradients/a/b/Conv2D_grad/``.
    """
    of_function, of_tape = _OF_FUNCTION.match(name), _OF_TAPE.match(name)
    if of_function is not None:
        parts = of_function[1].split("/")
        for end in range(len(parts), 0, -1):
            if _GRADIENT_PART.search(parts[end - 1]):
                yield _GRADIENT_PART.sub("", "/".join(parts[:end]))
    elif of_tape is not None:
        parts = of_tape[1].split("/")
        for end in range(len(parts), 0, -1):
            candidate = "/".join(parts[:end])
            yield candidate
            yield re.sub(r"_\d+$", "", candidate)
