"""The layer call to which an operator belongs.

An operator of the forward pass belongs to the call of a layer that made it (`ownership`). How an operator of a gradient
leads to the forward one, as observed with TensorFlow 2.21:

- The tape makes it in ``gradient_tape/`` and the name scope that was open when the forward operator ran:
  ``gradient_tape/dense/MatMul/MatMul_1`` for ``dense/MatMul``, but ``gradient_tape/dense/Sum`` for ``dense/Softmax``.
- The gradients of a called function and of a loop's body are a function of their own, in which names begin with
  ``gradients/``, the forward operator's name and ``_grad``. Such a function knows the forward one:
  ``forward_function_name`` among its attributes, ``_forward_graph`` of a loop's or a branch's.
- Sums of gradients (``AddN``) and other operators without such a name belong to the layer that takes their result; if
  none does, to the layer whose results they take. If ``first`` has two followers, its gradient is a sum::

      gradient_tape/add/...  ->  AddN  ->  gradient_tape/first/Conv2D/Conv2DBackpropFilter    AddN is first's
      gradient_tape/dense/MatMul/MatMul_1  ->  Neg  ->  Square                                both are dense's
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import tensorflow as tf

from ..trace.graph_access import forward_function
from ..trace.ownership import Owner, Ownership, forward_names
from .placed_graphs import Body, find_called

__all__ = ["OperatorOwners"]


class OperatorOwners:
    """Finds the owners of the operators of one program."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        #: The owners of the forward operators directly inside each name scope, by body: if one graph runs in two
        #: places, its operators have different owners there.
        self._scopes: dict[Body, dict[str, list[Owner]]] = {}
        #: The owners of the operators of gradients, by body and name; an operator that leads to no layer is missing.
        self._gradients: dict[Body, dict[str, Owner]] = {}

    def find(self, operator: tf.Operation, body: Body) -> Owner:
        """Return the layer call that an operator of a body belongs to, the caller of the body if no layer made it."""
        if not body.is_gradient(operator.name):
            return self._find_forward_owner(operator.name, body)
        if body not in self._gradients:
            self._gradients[body] = self._assign_gradients(body)
        return self._gradients[body].get(operator.name, body.owner)

    def find_in_scope(self, scope: str, body: Body) -> Owner | None:
        """Return the owner of all forward operators right inside a name scope; None if they have several or none."""
        if body not in self._scopes:
            self._scopes[body] = self._list_by_scope(body)
        return _select_one(self._scopes[body].get(scope, ()))

    def _list_by_scope(self, body: Body) -> dict[str, list[Owner]]:
        """Return the owners of a body's forward operators by the innermost name scope that each operator is in.

        A body that is all gradients (its boundary is 0) has no forward operators: there its own count, which tell by
        their names whose they are.
        """
        end = body.boundary or len(body.operators)
        scopes: dict[str, list[Owner]] = {}
        for name in list(body.operators)[:end]:
            scopes.setdefault(name.rpartition("/")[0], []).append(self._find_forward_owner(name, body))
        return scopes

    def _find_forward_owner(self, name: str, body: Body) -> Owner:
        """Return the owner of a forward operator."""
        return self._ownership.find(body.graph, name, body.owner)

    def _assign_gradients(self, body: Body) -> dict[str, Owner]:
        """Return the owners of all operators of a body that compute gradients, by name.

        Operators that lead to a forward operator themselves come first. From them owners go on to the rest, one edge at
        a time, so that the nearest layer counts: in ``sum_1 -> sum_2`` the owner of ``sum_2`` says nothing about a
        ``sum_1`` that a layer takes too. All are assigned at once: the order of requests changes no owner.
        """
        gradients = [operator for name, operator in body.operators.items() if body.is_gradient(name)]
        owners: dict[str, Owner] = {}
        for gradient in gradients:
            owner = self._find_forward_lead(gradient, body, owners)
            if owner is not None:
                owners[gradient.name] = owner
        while True:
            rest = [gradient for gradient in gradients if gradient.name not in owners]
            further = _take_from_neighbors(rest, owners, _list_consumers)
            further = further or _take_from_neighbors(rest, owners, _list_producers)
            if not further:
                return owners
            owners |= further

    def _find_forward_lead(self, gradient: tf.Operation, body: Body, owners: Mapping[str, Owner]) -> Owner | None:
        """Return the owner of the forward operator that a gradient's operator leads to; None if it leads to none.

        ``owners`` are the owners of earlier gradients.
        """
        return self._find_by_name(gradient.name, body.forward) or self._find_by_forward_call(gradient, body, owners)

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

    def _find_by_forward_call(self, gradient: tf.Operation, body: Body, owners: Mapping[str, Owner]) -> Owner | None:
        """Return the owner of the function's call whose values this call of the function's gradient takes.

        A gradient that computes its forward values anew makes that call itself; then it is one of ``owners``.
        """
        function = find_called(gradient, "f")
        forward = forward_function(body.graph, function) if function is not None else ""
        for producer in _list_producers(gradient) if forward else ():
            if find_called(producer, "f") == forward:
                recomputes = body.is_gradient(producer.name)
                return owners.get(producer.name) if recomputes else self._find_forward_owner(producer.name, body)
        return None


def _take_from_neighbors(
    gradients: Iterable[tf.Operation],
    owners: Mapping[str, Owner],
    list_neighbors: Callable[[tf.Operation], Iterator[tf.Operation]],
) -> dict[str, Owner]:
    """Return, by name, the owner of each operator whose neighbors, as far as they have owners, have a common one."""
    common: dict[str, Owner] = {}
    for gradient in gradients:
        names = [neighbor.name for neighbor in list_neighbors(gradient)]
        owner = _select_one(owners[name] for name in names if name in owners)
        if owner is not None:
            common[gradient.name] = owner
    return common


def _list_consumers(operator: tf.Operation) -> Iterator[tf.Operation]:
    """Yield the operators that take an operator's results, except operators that only write (to a variable)."""
    for tensor in operator.outputs:
        yield from (consumer for consumer in tensor.consumers() if consumer.outputs)


def _list_producers(operator: tf.Operation) -> Iterator[tf.Operation]:
    """Yield the operators whose results an operator takes."""
    return (tensor.op for tensor in operator.inputs)


def _select_one(owners: Iterable[Owner]) -> Owner | None:
    """Return the first of several owners if all are calls of one layer; None if they are not or there are none."""
    candidates = list(owners)
    return candidates[0] if len({owner.path for owner in candidates}) == 1 else None
