"""The costs of the operators of a walk, one after another: some change the costs of earlier operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from profilerkit.trace.layer_operators import name_layer_operator

from ..costs import OpCall, Shapes
from ..costs.registry import OPERATORS
from .folding import Folding
from .graph_access import read_attribute
from .ownership import LayerCost, is_gradient_name
from .values import Executed, Value

__all__ = ["OperatorPrices", "make_layer_operator", "price"]


class OperatorPrices:
    """Computes the cost of each operator of a walk, in the order of their running."""

    def __init__(self, folding: Folding) -> None:
        self._folding = folding
        self._einsums = _EinsumGradients()

    def write_cost(self, done: Executed, operator: Any, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        """Write its cost to an operator that is noted."""
        call = OpCall(
            type=operator.type,
            inputs=Shapes([value.known_shape for value in inputs]),
            outputs=Shapes([value.known_shape for value in outputs]),
            input_dtypes=tuple(value.dtype for value in inputs),
            output_dtypes=tuple(value.dtype for value in outputs),
            attribute=lambda name: read_attribute(operator, name),
            value=lambda index: self._folding.constant(inputs[index]),
            is_given=lambda index: self._folding.follows(inputs[index]),
            is_gradient_of_einsum=bool(done.equation) and self._einsums.is_gradient(operator, done.equation),
        )
        price(done, call)


def price(done: Executed, call: OpCall) -> None:
    """Write its cost to an executed operator, or that it is missing."""
    cost, done.missing = OPERATORS.price(call)
    done.macs, done.flops = cost.times(done.times)


def make_layer_operator(layer: LayerCost, times: int, is_backward: bool = False) -> Executed:
    """Return the operator that stands for a whole call of a layer among the others."""
    name = name_layer_operator("layer", layer.call.layer_type)
    executed = Executed(name, (), (), times, layer.call, is_backward=is_backward)
    if layer.cost.is_counted:
        executed.macs, executed.flops = layer.cost.times(times)
    else:
        executed.missing = name
    return executed


# Einsums that are gradients of earlier einsums, known by their equations ----------------------------------------------

#: The labels of an einsum's result, and in any order the labels of its two operands.
_Labels: TypeAlias = tuple[str, frozenset[str]]


class _EinsumGradients:
    """Keeps the equations of a walk's einsums, and recognizes by them the gradients of earlier einsums.

    The gradient of ``A,B->R`` by A is ``R,B->A``. A gradient's function may compute an einsum of the forward pass
    again: then its name is a gradient's name, but its equation is not.
    """

    def __init__(self) -> None:
        self._seen: set[_Labels] = set()

    def is_gradient(self, operator: Any, equation: str) -> bool:
        """Return whether an einsum is a gradient of an earlier einsum; if not, keep it, for its gradients."""
        operands, _, result = equation.replace(" ", "").replace("...", "").partition("->")
        terms = operands.split(",")
        if len(terms) != 2:
            return False
        first, second = terms
        if is_gradient_name(operator.name) and _labels(result, second, first) in self._seen:
            return True
        self._seen.add(_labels(first, second, result))
        return False


def _labels(first: str, second: str, result: str) -> _Labels:
    """Return the labels without the labels of one operand alone: TensorFlow takes their gradient apart."""
    one = "".join(label for label in first if label in second + result)
    other = "".join(label for label in second if label in first + result)
    return result, frozenset((one, other))
