"""The layer to which an operator belongs.

Operators' names do not show it, because TensorFlow numbers scopes to make them unique. Instead, in a trace,
every call of a layer notes the operators that it added to the graph; the innermost call owns an operator. A gradient's
operator belongs to the layer of the forward operator, or of the scope, that its name shows: ``dense`` has
``gradient_tape/dense/MatMul/MatMul_1`` for ``dense/MatMul``, and ``gradient_tape/dense/Sum`` for ``dense/Softmax``. An
operator with another name, such as the sum of two gradients (``AddN``), belongs to the caller of the graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from profilerkit.costs import Cost
from profilerkit.process.cached import cached_property

from ..compat.graphs import read_forward_graph
from .graph_access import body_named, forward_function

__all__ = ["CALLS", "LayerCost", "Owner", "Ownership", "is_gradient_name"]

#: Operators that call a function.
CALLS = ("PartitionedCall", "StatefulPartitionedCall")


class LayerCost(NamedTuple):
    """A call of a layer, and its cost as a whole by the formula of the layer."""

    call: Owner
    cost: Cost


@dataclass(eq=False)
class Owner:
    """One call of a layer.

    Attributes:
        path: The path of the layer.
        call: Which call of that layer it is.
        layer_type: The layer's class.
        outer: The call around it.
        graph: The graph that it was traced in.
        start: How many operators the graph had before the call.
        end: How many it had after the call.
        formula: Computes the cost of the whole call; None for a layer without a formula.
    """

    path: str
    call: int
    layer_type: str = ""
    outer: Owner | None = None
    graph: Any = None
    start: int = 0
    end: int = 0
    formula: Callable[[], Cost | None] | None = None

    @cached_property
    def cost(self) -> Cost | None:
        """The cost of the whole call by its formula; None without one, or where it leaves the call to the operators."""
        return None if self.formula is None else self.formula()

    def find_layer_cost(self) -> LayerCost | None:
        """Return the cost that stands for all operators of this call, by the outermost call around it that has a cost.

        The outermost call may be this call itself. None if no call has a cost: then each operator has its own cost.
        """
        around = None if self.outer is None else self.outer.find_layer_cost()
        if around is None and self.cost is not None:
            return LayerCost(self, self.cost)
        return around

    @cached_property
    def of_gradient(self) -> Owner:
        """The same call as the owner of its gradient's operators, which no formula for the layer covers."""
        return Owner(self.path, self.call, self.layer_type)


@dataclass
class Ownership:
    """The layer calls of one trace, and the operators of each.

    `LayerCalls` adds a call when it ends, so inner calls stand before the calls around them. `find` is for afterwards:
    it keeps the owners that it finds for a graph.

    Attributes:
        calls: The calls.
        root: The owner of operators that no layer makes.
    """

    calls: list[Owner] = field(default_factory=list)
    root: Owner = field(default_factory=lambda: Owner("", 0))
    #: The owner of each operator that a layer made, by its name, for each graph.
    _claims: dict[Any, dict[str, Owner]] = field(default_factory=dict)
    #: The owner of all operators right inside each name scope, for each graph; None where they have several, or none.
    _scopes: dict[Any, dict[str, Owner | None]] = field(default_factory=dict)
    #: The graph whose gradients a graph computes.
    _forward_graphs: dict[Any, Any] = field(default_factory=dict)

    def clear(self) -> None:
        """Delete the recorded calls: the model is traced anew."""
        self.calls.clear()
        self._claims.clear()
        self._scopes.clear()
        self._forward_graphs.clear()

    def find(self, graph: Any, operator: Any, caller: Owner) -> Owner:
        """Return the owner of an operator of a graph: the caller of the graph unless a layer made it.

        The call of a gradient's function has the owner of the forward call: it names the function of that call, and
        reads its results.
        """
        if operator.type in CALLS:
            function = operator.get_attr("f").name
            forward = forward_function(graph, function)
            if forward:
                self._forward_graphs[body_named(graph, function)] = body_named(graph, forward)
                for read in operator.inputs:
                    if read.op.type in CALLS and read.op.get_attr("f").name == forward:
                        return self.find(graph, read.op, caller).of_gradient
        name = operator.name
        return self._find_claims(graph).get(name) or self._find_by_gradient(graph, name) or caller

    def find_in_scope(self, graph: Any, scope: str) -> Owner | None:
        """Return the owner of all operators of a graph right inside a name scope; None if they have several or none."""
        if graph not in self._scopes:
            claims, scopes = self._find_claims(graph), dict[str, Owner | None]()
            for name in (operator.name for operator in self._find_traced(graph).get_operations()):
                owner, around = claims.get(name), name.rpartition("/")[0]
                first = scopes.setdefault(around, owner)
                if first is None or owner is None or first.path != owner.path:
                    scopes[around] = None
            self._scopes[graph] = scopes
        return self._scopes[graph].get(scope)

    def _find_by_gradient(self, graph: Any, name: str) -> Owner | None:
        """Return the owner of the forward operator, or of the scope, that the name of a gradient's operator tells."""
        forward = self._forward_graphs.get(graph) or read_forward_graph(graph) or graph
        claims = self._find_claims(forward)
        for forward_name in _list_forward_names(name):
            owner = claims.get(forward_name) or self.find_in_scope(forward, forward_name)
            if owner is not None:
                return owner.of_gradient
        return None

    def _find_claims(self, graph: Any) -> dict[str, Owner]:
        """Return the owner of each operator of a graph that a layer made, by the operator's name."""
        if graph not in self._claims:
            traced = self._find_traced(graph)
            names = [operator.name for operator in traced.get_operations()]
            claims = self._claims[graph] = {}
            for call in reversed(self.calls):  # outer calls first, so that inner ones take theirs from them
                if call.graph is traced:
                    claims.update(dict.fromkeys(names[call.start : call.end], call))
        return self._claims[graph]

    def _find_traced(self, graph: Any) -> Any:
        """Return the graph in which layers were called: this graph, or the traced graph that it is a copy of.

        TensorFlow copies the body of a loop or a branch to give it further outputs, which its gradient needs. The copy
        has the name of the traced graph with a suffix, and the names of its operators.
        """
        name = _find_traced_name(graph)
        traced = [call.graph for call in self.calls if _find_traced_name(call.graph) == name]
        return graph if not traced or any(same is graph for same in traced) else traced[0]


# Names of gradients, as observed with TensorFlow 2.21 -----------------------------------------------------------------

_OF_TAPE = re.compile(r"(?:.*/)?gradient_tape/(.+)")
_OF_FUNCTION = re.compile(r"(?:.*/)?gradients/(.+)")
_NUMBER = re.compile(r"_\d+$")
_GRADIENT_PART = re.compile(r"_grad(?:_\d+)?$")
#: The suffix of copies of a branch or loop body that TensorFlow makes to give the gradient further outputs.
_REWRITTEN = "_rewritten"


def _find_traced_name(graph: Any) -> str:
    """Return the name of a function's graph as it was traced, without the suffix of a copy for the gradient."""
    return str(graph.name).removesuffix(_REWRITTEN)


def is_gradient_name(name: str) -> bool:
    """Return whether an operator of that name computes gradients."""
    return _OF_TAPE.match(name) is not None or _OF_FUNCTION.match(name) is not None


def _list_forward_names(name: str) -> Iterator[str]:
    """Yield the names that the forward operator of a gradient's, or its scope, may have, the longest first.

    The tape calls the gradient of ``a/b/Conv2D`` something inside ``gradient_tape/a/b/Conv2D/``, where any part may
    have got a number to make it unique. In the gradient of a called function, of a loop's body or of a branch it is
    something inside ``gradients/a/b/Conv2D_grad/``.
    """
    match = _OF_FUNCTION.match(name) or _OF_TAPE.match(name)
    parts = match[1].split("/") if match else []
    for end in range(len(parts), 0, -1):
        candidate = "/".join(parts[:end])
        if match is not None and match.re is _OF_TAPE:
            yield candidate
            yield _NUMBER.sub("", candidate)
        elif _GRADIENT_PART.search(candidate):
            yield _GRADIENT_PART.sub("", candidate)
