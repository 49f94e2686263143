"""Products that TensorFlow runs as several operators: rows with weights, summed up; dilated convolutions (`dilation`).

In a graph they are found by going from an operator back to its inputs' operators. A tensor of an eager run does not
name its operator, so `EagerPatterns` notes the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from ..compat.eager_runs import identify_tensor
from .dilation import CONVOLUTIONS, TO_SPACE
from .graph_access import HANDING_ON, skip_operators
from .values import Executed

__all__ = ["VIEWS", "EagerCall", "EagerPatterns", "count_as_product", "find_weighted_rows"]

# Sparse products that TensorFlow writes with rows ---------------------------------------------------------------------

# ``tf.nn.embedding_lookup_sparse`` with weights is such a product, and so Keras multiplies a sparse matrix with a dense
# one. It costs as much as ``SparseTensorDenseMatMul`` for the same matrices: a multiply-accumulate for each number of
# the rows, instead of the multiplication and the addition that would be counted otherwise.

GATHERS = ("Gather", "GatherV2", "ResourceGather")
SUMS = ("SegmentSum", "SegmentSumV2", "UnsortedSegmentSum")


def find_weighted_rows(operator: Any) -> str:
    """Return the name of the multiplication whose weighted rows an operator sums up; nothing for any other operator."""
    if operator.type not in SUMS:
        return ""
    product = skip_operators(operator.inputs[0]).op
    if product.type != "Mul":
        return ""
    is_weighted = any(skip_operators(factor).op.type in GATHERS for factor in product.inputs)
    return product.name if is_weighted else ""


def count_as_product(multiplied: Executed, summed: Executed) -> None:
    """Make a multiplication and the sum over it one product, which has the operations of both."""
    multiplied.flops += summed.flops
    multiplied.macs, summed.flops = multiplied.flops // 2, 0


# Both in an eager run -------------------------------------------------------------------------------------------------

#: Operators whose output is their first input under another name or shape.
VIEWS = ("Identity", "Reshape", "Squeeze", "ExpandDims", "ReadVariableOp", "StopGradient", "Bitcast", "EnsureShape")


class EagerCall(NamedTuple):
    """An operator that has run, as TensorFlow's callback shows it.

    Attributes:
        kind: Its type.
        inputs: The tensors that it read.
        attributes: Its attributes: name, value, name, value.
        outputs: The tensors that it has made.
    """

    kind: str
    inputs: Sequence[Any]
    attributes: Sequence[Any]
    outputs: Sequence[Any]


class EagerPatterns:
    """Notes each operator of an eager run by `note`; `apply` then corrects costs of operators that form a product."""

    def __init__(self) -> None:
        #: The operator that has made the numbers in a tensor, by the number of the tensor.
        self._makers: dict[int, Executed] = {}
        #: Multiplications of gathered rows with a weight each: with a sum over them they are products.
        self._weighted_rows: set[Executed] = set()
        #: Functions that correct the costs of operators that form a product.
        self._corrections: list[Callable[[], None]] = []

    def note(self, latest: Executed, call: EagerCall) -> None:
        """Note how an operator that has just run uses the outputs of operators before it."""
        makers = [self._makers.get(identify_tensor(tensor)) for tensor in call.inputs]
        first = makers[0] if makers else None
        if latest.type == "Mul" and any(maker is not None and maker.type in GATHERS for maker in makers):
            self._weighted_rows.add(latest)
        if first is not None:
            self._note_pair(first, latest, call)
        is_view = latest.type in VIEWS or latest.type in HANDING_ON
        maker = first if first is not None and is_view else latest
        self._makers.update((identify_tensor(tensor), maker) for tensor in call.outputs)

    def _note_pair(self, first: Executed, latest: Executed, call: EagerCall) -> None:
        """Note an operator that forms a product with the operator that made its first input."""
        if latest.type in SUMS and first in self._weighted_rows:
            self._corrections.append(partial(count_as_product, first, latest))
        if latest.type in TO_SPACE and first.type in CONVOLUTIONS:
            padded, left = call.inputs[0].shape.num_elements(), call.outputs[0].shape.num_elements()
            if padded:  # the convolution counts in the share of its output that is not cropped
                self._corrections.append(partial(first.scale, Fraction(left, padded)))

    def apply(self) -> None:
        """Count the found patterns as the products that they stand for, after each operator has its own cost."""
        for correct in self._corrections:
            correct()
