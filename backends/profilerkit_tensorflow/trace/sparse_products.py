"""Sparse matrix products that TensorFlow writes with rows: gathered, multiplied by a number each, summed by segments.

``tf.nn.embedding_lookup_sparse`` with weights is such a product, and so Keras multiplies a sparse matrix with a dense
one. It costs what ``SparseTensorDenseMatMul`` does for the same matrices: a multiply-accumulate for each number of the
rows, which is the multiplication and the addition that would be counted otherwise.
"""

from __future__ import annotations

from typing import Any

from .graph_access import skip_operators
from .values import Executed

__all__ = ["GATHERS", "HANDING_ON", "SUMS", "count_as_product", "find_weighted_rows"]

GATHERS = ("Gather", "GatherV2", "ResourceGather")
SUMS = ("SegmentSum", "SegmentSumV2", "UnsortedSegmentSum")
#: Operators between these, which hand the same numbers on.
HANDING_ON = ("Cast", "ExpandDims", "Identity", "Reshape", "Squeeze")


def find_weighted_rows(operator: Any) -> str:
    """Return the name of the multiplication whose weighted rows an operator sums up; nothing for any other operator."""
    if operator.type not in SUMS:
        return ""
    product = skip_operators(operator.inputs[0], HANDING_ON).op
    if product.type != "Mul":
        return ""
    is_weighted = any(skip_operators(factor, HANDING_ON).op.type in GATHERS for factor in product.inputs)
    return product.name if is_weighted else ""


def count_as_product(multiplied: Executed, summed: Executed) -> None:
    """Make a multiplication and the sum over it one product, which has the operations of both."""
    multiplied.flops += summed.flops
    multiplied.macs, summed.flops = multiplied.flops // 2, 0
