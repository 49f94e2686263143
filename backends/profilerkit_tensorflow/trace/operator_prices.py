"""What the operators of a walk cost, one after another: some change the cost of those before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..costs import OpCall, Shapes
from .dilation import find_cropped_share, find_spread_share
from .einsum_gradients import EinsumGradients
from .folding import Folding
from .graph_access import read_attribute
from .pricing import price
from .sparse_products import count_as_product, find_weighted_rows
from .values import Executed, Scope, Value

__all__ = ["OperatorPrices"]


class OperatorPrices:
    """Computes the cost of each operator of a walk, in the order of their running."""

    def __init__(self, folding: Folding) -> None:
        self._folding = folding
        self._einsums = EinsumGradients()

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
