"""Which layer call a node that ran belongs to, and whether it is of the forward pass or of the gradients.

How a node leads to its layer: its name as a path through calls, loops and branches (`node_names`); along that path
through the program's function graphs to the operator it stands for; from there to the call of a layer that made the
operator (`ownership`). How an operator of a gradient leads to the forward one, as observed with TensorFlow 2.21:

- The tape makes it in ``gradient_tape/`` and the name scope that was open when the forward operator ran:
  ``gradient_tape/dense/MatMul/MatMul_1`` for ``dense/MatMul``, but ``gradient_tape/dense/Sum`` for ``dense/Softmax``.
- The gradients of a called function and of a loop's body are a function of their own, in which names begin with
  ``gradients/``, the forward operator's name and ``_grad``. Such a function knows the forward one:
  ``forward_function_name`` among its attributes, ``_forward_graph`` of a loop's or a branch's.
- Sums of gradients (``AddN``) and other operators without such a name belong to the layer that takes their result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..compat import forward_graph
from ..trace.gradient_names import find_traced_name, forward_names, is_gradient_name
from ..trace.graph_access import find_body, forward_function, function_attributes
from ..trace.ownership import Owner, Ownership
from ..trace.program import Program
from .events import PassTimes
from .node_names import find_kernel, split_path

__all__ = ["Body", "NodeOwners", "Placed", "runs_of_bodies"]

_BRANCH_ATTRIBUTES = {"body": "body", "cond": "cond", "then": "then_branch", "else": "else_branch"}


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
        """Say whether an operator computes gradients."""
        if self.position.get(name, -1) < self.boundary:
            return False
        return self.boundary == 0 or self.operators[name].type != "ReadVariableOp"  # what the step returns besides


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a node belongs: its layer call, the body that it ran in, and whether it computes gradients.

    ``merged`` are the other layers whose operators its kernel runs too, ``parts`` the types of those of its own layer.
    ``type`` is the traced operator's, or what ran.
    """

    owner: Owner
    body: Body
    backward: bool
    type: str
    merged: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class NodeOwners:
    """Finds the owners of the nodes of one program.

    ``forward_operators`` is the least number of operators in the forward pass, for a graph without the root's call.
    """

    def __init__(self, program: Program, training: bool, forward_operators: int = 0) -> None:
        self._ownership: Ownership = program.calls.ownership
        graph = program.graph
        size = len(graph.get_operations())
        boundary = _boundary(graph, self._ownership, forward_operators) if training else size
        self.main: Body = Body(graph, self._ownership.root, boundary)
        self.main.forward = self.main
        self._bodies: dict[tuple[str, ...], Body] = {(): self.main}
        graphs = [call.graph for call in self._ownership.calls]
        self._traced = set(map(id, graphs))
        self._traced_by_name = {find_traced_name(traced): traced for traced in graphs}
        self._scopes: dict[int, dict[str, set[Owner]]] = {}
        self._placed_operators: dict[tuple[int, str], Owner | None] = {}

    def locate(self, times: PassTimes) -> dict[str, Placed]:
        """Return where each node of a pass belongs, by the name under which it ran."""
        # The first level of each path is the call of it all.
        paths = {executed: split_path(executed)[1:] for executed in times.nodes}
        ran: dict[tuple[str, ...], set[str]] = {}
        for path in paths.values():
            ran.setdefault(path[:-1], set()).update(path[-1:])
        return {
            executed: self._locate(path, times.nodes[executed].op_type, ran[path[:-1]])
            for executed, path in paths.items()
        }

    def _locate(self, path: tuple[str, ...], executed_type: str, ran: set[str]) -> Placed:
        body = self._body(path[:-1])
        name = path[-1] if path else ""
        operator = body.operators.get(name)
        if operator is None:
            owner = self._only_owner_in_scope(body, name.rpartition("/")[0]) or body.owner
            return Placed(owner, body, _is_named_gradient(path), executed_type)
        kernel = find_kernel(operator, executed_type, ran)
        owner = self.find_owner(kernel, body)
        parts = [*_between(operator, kernel), *_padding(kernel, executed_type)]
        paths = [self.find_owner(part, body).path for part in parts]
        others = tuple(sorted(set(paths) - {owner.path}))
        part_types = tuple(part.type for part, path in zip(parts, paths, strict=True) if path == owner.path)
        return Placed(owner, body, body.is_gradient(kernel.name), kernel.type, others, part_types)

    def find_compiled(self) -> set[tuple[str, bool]]:
        """Return the layers that call a function compiled by XLA, whose nodes are not seen, and if for a gradient."""
        return {
            (self.find_owner(operator, body).path, body.is_gradient(name))
            for body in list(self._bodies.values())
            for name, operator in body.operators.items()
            if operator.type.endswith("PartitionedCall") and _is_compiled(body.graph, _find_called(operator, "f"))
        }

    # Bodies ------------------------------------------------------------------------------------------------------

    def _body(self, callers: tuple[str, ...]) -> Body:
        """Return the body that a path of calls leads to, as far as the graphs have that path."""
        body = self._bodies.get(callers)
        if body is None:
            body = self._bodies[callers] = self._enter(self._body(callers[:-1]), callers[-1])
        return body

    def _enter(self, outer: Body, caller: str) -> Body:
        name, attribute = (caller, "f") if caller in outer.operators else _branch(caller)
        operator = outer.operators.get(name)
        function = _find_called(operator, attribute) if operator is not None else None
        graph = find_body(outer.graph, function)
        if operator is None or graph is None:
            return outer
        owner = self.find_owner(operator, outer)
        size = len(graph.get_operations())
        if not outer.is_gradient(name):
            return Body(graph, owner, size)
        forward = _forward_graph(outer.graph, function, graph)
        if forward is None:
            return Body(graph, owner, 0)
        return Body(graph, owner, 0, Body(forward, owner, len(forward.get_operations())))

    # Owners ------------------------------------------------------------------------------------------------------

    def find_owner(self, operator: Any, body: Body) -> Owner:
        """Return the layer call that an operator of a body belongs to."""
        if not body.is_gradient(operator.name):
            return self._forward_owner(body, operator.name)
        return self._of_gradient(operator, body) or body.owner

    def _forward_owner(self, body: Body, name: str) -> Owner:
        """Return the owner of a forward operator; in a copy of a branch's graph, that in the traced graph."""
        graph = body.graph
        if id(graph) not in self._traced:
            graph = self._traced_by_name.get(find_traced_name(graph), graph)
        return self._ownership.of(graph, name, body.owner)

    def _of_gradient(self, operator: Any, body: Body) -> Owner | None:
        key = (id(body), operator.name)
        if key not in self._placed_operators:
            self._placed_operators[key] = None  # for a search that leads back here
            self._placed_operators[key] = (
                self._by_name(operator.name, body.forward)
                or self._by_forward_call(operator, body)
                or self._by_forward_values(operator, body)
                or self._only(self._by_neighbors(operator.outputs, body))
                or self._only(
                    self._of_gradient(made.op, body) for made in operator.inputs if body.is_gradient(made.op.name)
                )
            )
        return self._placed_operators[key]

    def _by_name(self, name: str, forward: Body | None) -> Owner | None:
        if forward is None:
            return None
        for candidate in forward_names(name):
            if candidate in forward.operators and not forward.is_gradient(candidate):
                return self._forward_owner(forward, candidate)
            owner = self._only_owner_in_scope(forward, candidate)
            if owner is not None:
                return owner
        return None

    def _by_forward_call(self, operator: Any, body: Body) -> Owner | None:
        """Return the owner of the function's call whose values this call of the function's gradient takes."""
        function = _find_called(operator, "f")
        forward = forward_function(body.graph, function) if function is not None else ""
        for made in operator.inputs if forward else ():
            if _find_called(made.op, "f") == forward:
                return self.find_owner(made.op, body)
        return None

    def _by_forward_values(self, operator: Any, body: Body) -> Owner | None:
        """Return the owner of the forward operator ``Relu`` whose value an operator such as ``ReluGrad`` takes."""
        for made in operator.inputs:
            if f"{made.op.type}Grad" == operator.type and not body.is_gradient(made.op.name):
                return self.find_owner(made.op, body)
        return None

    def _by_neighbors(self, outputs: Any, body: Body) -> Iterator[Owner | None]:
        for tensor in outputs:
            for consumer in tensor.consumers():
                if body.is_gradient(consumer.name) and consumer.outputs:
                    yield self._of_gradient(consumer, body)

    @staticmethod
    def _only(owners: Iterator[Owner | None]) -> Owner | None:
        """Return the first of several owners, where all are calls of one layer."""
        candidates = [owner for owner in owners if owner is not None]
        return candidates[0] if len({owner.path for owner in candidates}) == 1 else None

    def _only_owner_in_scope(self, body: Body, scope: str) -> Owner | None:
        """Return the owner of all forward operators right inside a name scope, where they have one owner."""
        scopes = self._scopes.get(id(body.graph))
        if scopes is None:
            scopes = self._scopes[id(body.graph)] = {}
            for name, index in body.position.items():
                if index < body.boundary or body.boundary == 0:
                    owner = self._forward_owner(body, name)
                    scopes.setdefault(name.rpartition("/")[0], set()).add(owner)
        owners = scopes.get(scope, set())
        return next(iter(owners)) if len({owner.path for owner in owners}) == 1 else None


def runs_of_bodies(times: PassTimes, placed: Mapping[str, Placed]) -> dict[int, int]:
    """Return how often each function's graph ran in a pass, by its ``id``: a loop's body in every round."""
    runs: Counter[Body] = Counter()
    for executed, node in placed.items():
        runs[node.body] = max(runs[node.body], times.nodes[executed].calls)
    of_graphs: Counter[int] = Counter()
    for body, count in runs.items():
        of_graphs[id(body.graph)] += count
    return dict(of_graphs)


def _boundary(graph: Any, ownership: Ownership, forward_operators: int) -> int:
    """Return the index of the first operator that computes gradients, after the forward pass and the sum of outputs."""
    operators = graph.get_operations()
    whole = [call.end for call in ownership.calls if call.graph is graph and not call.path]
    start = min(max(whole, default=forward_operators), len(operators))
    for index in range(start, len(operators)):
        operator = operators[index]
        function = _find_called(operator, "f")
        if operator.name.startswith("gradient_tape/"):
            return index
        if function is not None and forward_function(graph, function):
            return index
    return len(operators)


def _is_named_gradient(path: tuple[str, ...]) -> bool:
    return any(map(is_gradient_name, path))


def _between(operator: Any, kernel: Any) -> list[Any]:
    """Return the operators from the one that names a fused kernel back to its main one, which is left out."""
    ways: list[list[Any]] = [[operator]]
    for _ in range(8):
        for way in ways:
            if way[-1] is kernel:
                return way[:-1]
        ways = [[*way, tensor.op] for way in ways for tensor in way[-1].inputs]
    return []


def _padding(kernel: Any, executed_type: str) -> list[Any]:
    """Return the padding that is fused into a convolution."""
    return [tensor.op for tensor in kernel.inputs if "PadWith" in executed_type and tensor.op.type == "Pad"]


def _branch(caller: str) -> tuple[str, str]:
    name, _, branch = caller.rpartition("/")
    return name, _BRANCH_ATTRIBUTES.get(branch, branch)


def _find_called(operator: Any, attribute: str) -> str | None:
    """Return the name of the function that an operator calls; None where it calls none."""
    try:
        if attribute.startswith("branch"):
            name: str = operator.get_attr("branches")[int(attribute.removeprefix("branch"))].name
        else:
            name = operator.get_attr(attribute).name
    except (ValueError, AttributeError, IndexError):
        return None
    return name


def _is_compiled(graph: Any, function: str | None) -> bool:
    attributes = {} if function is None else function_attributes(graph, function)
    return "_XlaMustCompile" in attributes and bool(attributes["_XlaMustCompile"].b)


def _forward_graph(outer: Any, function: str | None, graph: Any) -> Any:
    """Return the graph whose gradients a function computes; None if it does not record that."""
    forward = forward_graph(graph)
    if forward is not None or function is None:
        return forward
    return find_body(outer, forward_function(outer, function))
