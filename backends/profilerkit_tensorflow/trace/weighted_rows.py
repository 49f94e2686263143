"""Rows that are gathered from a table, multiplied by a weight each, and summed up: a product with a sparse matrix.

``tf.nn.embedding_lookup_sparse`` with weights runs these three operators, and so does Keras for a sparse matrix times a
dense one. They cost as much as ``SparseTensorDenseMatMul`` for the same matrices: a multiply-accumulate for each number
of the rows, instead of the multiplication and the addition that would be counted otherwise.
"""

from __future__ import annotations

from typing import Any

from .graph_access import skip_operators
from .values import Executed

__all__ = ["GATHERS", "SUMS", "count_as_product", "find_weighted_rows"]

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
    multiplied.macs = multiplied.flops // 2
    summed.flops = 0
