"""Sparse matrix products that TensorFlow writes with rows: gathered, multiplied by a number each, summed by segments.

``tf.nn.embedding_lookup_sparse`` with weights is such a product, and so Keras multiplies a sparse matrix with a dense
one. It costs what ``SparseTensorDenseMatMul`` does for the same matrices: a multiply-accumulate for each number of the
rows, which is the multiplication and the addition that would be counted otherwise.
"""

from __future__ import annotations

from typing import Any

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
    product = _behind(operator.inputs[0]).op
    is_weighted = product.type == "Mul" and any(_behind(factor).op.type in GATHERS for factor in product.inputs)
    return product.name if is_weighted else ""


def count_as_product(multiplied: Executed, summed: Executed) -> None:
    """Make a multiplication and the sum over it one product, which has the operations of both."""
    multiplied.flops += summed.flops
    multiplied.macs, summed.flops = multiplied.flops // 2, 0


def _behind(tensor: Any) -> Any:
    while tensor.op.type in HANDING_ON:
        tensor = tensor.op.inputs[0]
    return tensor
