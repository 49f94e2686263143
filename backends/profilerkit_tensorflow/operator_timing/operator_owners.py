"""Which layer call an operator belongs to.

An operator of the forward pass belongs to the call of a layer that made it (`ownership`). How an operator of a gradient
leads to the forward one, as observed with TensorFlow 2.21:

- The tape makes it in ``gradient_tape/`` and the name scope that was open when the forward operator ran:
  ``gradient_tape/dense/MatMul/MatMul_1`` for ``dense/MatMul``, but ``gradient_tape/dense/Sum`` for ``dense/Softmax``.
- The gradients of a called function and of a loop's body are a function of their own, in which names begin with
  ``gradients/``, the forward operator's name and ``_grad``. Such a function knows the forward one:
  ``forward_function_name`` among its attributes, ``_forward_graph`` of a loop's or a branch's.
- Sums of gradients (``AddN``) and other operators without such a name belong to the layer that takes their result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..trace.gradient_names import find_traced_name, forward_names
from ..trace.graph_access import forward_function
from ..trace.ownership import Owner, Ownership
from .function_bodies import Body, find_called

__all__ = ["OperatorOwners"]


class OperatorOwners:
    """Finds the owners of the operators of one program."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        graphs = [call.graph for call in ownership.calls]
        self._traced = set(map(id, graphs))
        self._traced_by_name = {find_traced_name(graph): graph for graph in graphs}
        #: The owners of the forward operators right inside each name scope, by graph.
        self._scopes: dict[int, dict[str, set[Owner]]] = {}
        #: The owners of gradients' operators that were asked for.
        self._of_gradients: dict[tuple[Body, str], Owner | None] = {}

    def find(self, operator: Any, body: Body) -> Owner:
        """Return the layer call that an operator of a body belongs to."""
        if not body.is_gradient(operator.name):
            return self._find_forward_owner(operator.name, body)
        return self._find_gradient_owner(operator, body) or body.owner

    def find_in_scope(self, scope: str, body: Body) -> Owner | None:
        """Return the owner of all forward operators right inside a name scope, where they have one owner."""
        scopes = self._scopes.get(id(body.graph))
        if scopes is None:
            scopes = self._scopes[id(body.graph)] = self._list_by_scope(body)
        return _select_one(scopes.get(scope, ()))

    def _list_by_scope(self, body: Body) -> dict[str, set[Owner]]:
        """Return the owners of a body's forward operators by the innermost name scope that each operator is in."""
        scopes: dict[str, set[Owner]] = {}
        for name, index in body.position.items():
            if index < body.boundary or body.boundary == 0:
                scopes.setdefault(name.rpartition("/")[0], set()).add(self._find_forward_owner(name, body))
        return scopes

    def _find_forward_owner(self, name: str, body: Body) -> Owner:
        """Return the owner of a forward operator; in a copy of a branch's graph, that in the traced graph."""
        graph = body.graph
        if id(graph) not in self._traced:
            graph = self._traced_by_name.get(find_traced_name(graph), graph)
        return self._ownership.find(graph, name, body.owner)

    def _find_gradient_owner(self, operator: Any, body: Body) -> Owner | None:
        """Return the owner of a gradient's operator by the first of five ways that finds one; each is tried once."""
        key = body, operator.name
        if key not in self._of_gradients:
            self._of_gradients[key] = None  # for a search that leads back here
            self._of_gradients[key] = (
                self._find_by_name(operator.name, body.forward)
                or self._find_by_forward_call(operator, body)
                or self._find_by_forward_value(operator, body)
                or self._find_by_consumers(operator, body)
                or self._find_by_producers(operator, body)
            )
        return self._of_gradients[key]

    def _find_by_name(self, name: str, forward: Body | None) -> Owner | None:
        """Return the owner of the forward operator, or of the scope, that the name of a gradient's operator tells."""
        if forward is None:
            return None
        for candidate in forward_names(name):
            if candidate in forward.operators and not forward.is_gradient(candidate):
                return self._find_forward_owner(candidate, forward)
            owner = self.find_in_scope(candidate, forward)
            if owner is not None:
                return owner
        return None

    def _find_by_forward_call(self, operator: Any, body: Body) -> Owner | None:
        """Return the owner of the function's call whose values this call of the function's gradient takes."""
        function = find_called(operator, "f")
        forward = forward_function(body.graph, function) if function is not None else ""
        for made in operator.inputs if forward else ():
            if find_called(made.op, "f") == forward:
                return self.find(made.op, body)
        return None

    def _find_by_forward_value(self, operator: Any, body: Body) -> Owner | None:
        """Return the owner of the forward operator ``Relu`` whose value an operator such as ``ReluGrad`` takes."""
        for made in operator.inputs:
            if f"{made.op.type}Grad" == operator.type and not body.is_gradient(made.op.name):
                return self.find(made.op, body)
        return None

    def _find_by_consumers(self, operator: Any, body: Body) -> Owner | None:
        """Return the owner of the gradients that take the values of an operator, where they have one."""
        consumers = [consumer for tensor in operator.outputs for consumer in tensor.consumers() if consumer.outputs]
        return self._find_common_owner(consumers, body)

    def _find_by_producers(self, operator: Any, body: Body) -> Owner | None:
        """Return the owner of the gradients whose values an operator takes, where they have one."""
        return self._find_common_owner([made.op for made in operator.inputs], body)

    def _find_common_owner(self, operators: Iterable[Any], body: Body) -> Owner | None:
        """Return the owner of those of the operators that compute gradients, where they have one."""
        gradients = [operator for operator in operators if body.is_gradient(operator.name)]
        owners = [self._find_gradient_owner(operator, body) for operator in gradients]
        return _select_one(owner for owner in owners if owner is not None)


def _select_one(owners: Iterable[Owner]) -> Owner | None:
    """Return the first of several owners, where all are calls of one layer."""
    candidates = list(owners)
    return candidates[0] if len({owner.path for owner in candidates}) == 1 else None
