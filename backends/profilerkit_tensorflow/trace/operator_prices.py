"""What the operators of a walk cost, one after another: some change the cost of those before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ..costs import OpCall, Shapes
from .dilation import find_cropped_share, find_spread_share
from .folding import Folding
from .gradient_names import is_gradient_name
from .graph_access import read_attribute
from .pricing import price
from .sparse_products import count_as_product, find_weighted_rows
from .values import Executed, Scope, Value

__all__ = ["OperatorPrices"]


class OperatorPrices:
    """Computes the cost of each operator of a walk, in the order of their running."""

    def __init__(self, folding: Folding) -> None:
        self._folding = folding
        self._einsums = _EinsumGradients()

    def write_cost(
        self, done: Executed, operator: Any, inputs: Sequence[Value], outputs: Sequence[Value], scope: Scope
    ) -> None:
        """Write its cost to an operator that is noted, and correct that of operators before it in the scope."""
        price(done, self._describe_call(done, operator, inputs, outputs))
        self._leave_out_padding(done, operator, scope)
        multiplied = scope.executed.get(find_weighted_rows(operator))
        if multiplied is not None:
            count_as_product(multiplied, done)

    def _describe_call(
        self, done: Executed, operator: Any, inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> OpCall:
        """Return the call of an operator as its formula gets it."""
        return OpCall(
            type=operator.type,
            inputs=Shapes([value.known_shape for value in inputs]),
            outputs=Shapes([value.known_shape for value in outputs]),
            input_dtypes=tuple(value.dtype for value in inputs),
            output_dtypes=tuple(value.dtype for value in outputs),
            attribute=lambda name: read_attribute(operator, name),
            value=lambda index: self._folding.constant(inputs[index]),
            is_gradient_of_einsum=bool(done.equation) and self._einsums.is_gradient(operator, done.equation),
        )

    def _leave_out_padding(self, done: Executed, operator: Any, scope: Scope) -> None:
        """Subtract what a convolution computes on padding that only serves its dilation."""
        of_gradient = find_spread_share(self._folding, operator, scope)
        cropped = find_cropped_share(self._folding, operator, scope)
        if of_gradient is not None:
            done.scale(of_gradient)
        elif cropped is not None and cropped.convolution in scope.executed:
            scope.executed[cropped.convolution].scale(cropped.share)


#: The labels of an einsum's result, and in any order those of its two operands.
_Labels: TypeAlias = tuple[str, frozenset[str]]


class _EinsumGradients:
    """Keeps the equations of a walk's einsums, and knows by them which later one is a gradient of one of them.

    The gradient of ``A,B->R`` by A is ``R,B->A``. What a gradient's function computes again of the forward pass has a
    gradient's name too, and not such an equation.
    """

    def __init__(self) -> None:
        self._seen: set[_Labels] = set()

    def is_gradient(self, operator: Any, equation: str) -> bool:
        """Return whether an einsum is a gradient of one seen before; if not, keep it as one that may have gradients."""
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
    """Return the labels without those that one operand alone has: TensorFlow takes their gradient apart."""
    one = "".join(label for label in first if label in second + result)
    other = "".join(label for label in second if label in first + result)
    return result, frozenset((one, other))
