"""The layer call to which a node belongs, and whether the node is of the forward pass or of the gradients.

A node's name is a path through calls, loops and branches (`executed_names.py`). The path leads through the program's
graphs to the operator of the node; `Ownership` finds the operator's owner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from profilerkit.process.cached import cached_property

from ..trace.graph_access import find_body, function_attributes
from ..trace.ownership import Owner, is_gradient_name
from ..trace.program import Program
from .executed_names import find_fused, split_path
from .profiler_session import PassTimes

__all__ = ["Body", "NodeOwners", "NodePlace", "XlaCall", "count_graph_runs"]

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


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The place of a node: its layer call, the body that it ran in, and whether it computes gradients.

    ``merged`` are the other layers whose operators its kernel also runs, ``parts`` the types of the operators of its
    own layer. ``type`` is the type of the traced operator, otherwise of the executed node.
    """

    owner: Owner
    body: Body
    backward: bool
    type: str
    merged: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class XlaCall(NamedTuple):
    """A call of a function that XLA compiles: the path of the calling layer, and the phase, forward or backward."""

    layer: str
    phase: str


class NodeOwners:
    """Finds the owners of the nodes of one program."""

    def __init__(self, program: Program) -> None:
        graph, forward_end = program.graph, program.calls.forward_end
        self._ownership = program.calls.ownership
        boundary = len(graph.get_operations()) if forward_end is None else forward_end
        main = Body(graph, self._ownership.root, boundary)
        self._bodies: dict[tuple[str, ...], Body] = {(): main}

    def locate(self, times: PassTimes) -> dict[str, NodePlace]:
        """Return the place of each node of a pass, by the name under which it ran."""
        # The first level of each path is the call of it all.
        paths = {executed: split_path(executed)[1:] for executed in times.nodes}
        ran: dict[tuple[str, ...], set[str]] = {}
        for path in paths.values():
            ran.setdefault(path[:-1], set()).update(path[-1:])
        return {
            executed: self._locate(path, times.nodes[executed].op_type, ran[path[:-1]])
            for executed, path in paths.items()
        }

    def _locate(self, path: tuple[str, ...], executed_type: str, ran: set[str]) -> NodePlace:
        """Return the place of a node, by its path, its type, and the names of all nodes that ran in its body."""
        body = self._find_body(path[:-1])
        name = path[-1] if path else ""
        operator = body.operators.get(name)
        if operator is None:
            owner = self._ownership.find_in_scope(body.graph, name.rpartition("/")[0]) or body.owner
            return NodePlace(owner, body, any(map(is_gradient_name, path)), executed_type)
        *fused, kernel = find_fused(operator, executed_type, ran)
        owner = self._find_owner(kernel, body)
        is_padded = "PadWith" in executed_type  # the padding is fused into a convolution
        parts = [*fused, *(tensor.op for tensor in kernel.inputs if is_padded and tensor.op.type == "Pad")]
        paths = [self._find_owner(part, body).path for part in parts]
        others = tuple(sorted(set(paths) - {owner.path}))
        own_types = tuple(part.type for part, path in zip(parts, paths, strict=True) if path == owner.path)
        return NodePlace(owner, body, body.is_gradient(kernel.name), kernel.type, others, own_types)

    def find_compiled(self) -> set[XlaCall]:
        """Return the calls of functions compiled by XLA, whose nodes are not seen, in bodies that `locate` has met."""
        compiled = set()
        for body in self._bodies.values():
            for name, operator in body.operators.items():
                if operator.type.endswith("PartitionedCall") and _is_compiled(body.graph, _find_called(operator, "f")):
                    phase = "backward" if body.is_gradient(name) else "forward"
                    compiled.add(XlaCall(self._find_owner(operator, body).path, phase))
        return compiled

    def _find_body(self, callers: tuple[str, ...]) -> Body:
        """Return the body that a path of calls leads to, as far as the graphs have that path."""
        if callers not in self._bodies:
            self._bodies[callers] = self._enter(self._find_body(callers[:-1]), callers[-1])
        return self._bodies[callers]

    def _enter(self, outer: Body, caller: str) -> Body:
        """Return the body of a call in an outer body; the outer body if its graph has no such call.

        The caller is an operator, or one part of a loop or a branch: ``while/body``.
        """
        name, attribute = caller, "f"
        if caller not in outer.operators:
            name, _, part = caller.rpartition("/")
            attribute = _ATTRIBUTES.get(part, part)
        operator = outer.operators.get(name)
        graph = None if operator is None else find_body(outer.graph, _find_called(operator, attribute))
        if graph is None:
            return outer
        boundary = 0 if outer.is_gradient(name) else len(graph.get_operations())
        return Body(graph, self._find_owner(operator, outer), boundary)

    def _find_owner(self, operator: Any, body: Body) -> Owner:
        """Return the layer call that an operator of a body belongs to."""
        return self._ownership.find(body.graph, operator, body.owner)


def _find_called(operator: Any, attribute: str) -> str | None:
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


def _is_compiled(graph: Any, function: str | None) -> bool:
    """Return whether XLA compiles a function."""
    attributes = {} if function is None else function_attributes(graph, function)
    return "_XlaMustCompile" in attributes and bool(attributes["_XlaMustCompile"].b)


def count_graph_runs(times: PassTimes, places: Mapping[str, NodePlace]) -> dict[int, int]:
    """Return how often each function's graph ran in a pass, by its ``id``: a loop's body in every round."""
    body_runs: Counter[Body] = Counter()
    for executed, node in places.items():
        body_runs[node.body] = max(body_runs[node.body], times.nodes[executed].calls)
    graph_runs: Counter[int] = Counter()
    for body, runs in body_runs.items():
        graph_runs[id(body.graph)] += runs
    return dict(graph_runs)
