"""The bytes inside products of matrices and linear layers (``LinearAlgebra.cpp``)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..costs.shapes import is_plain
from .inside_operation import Operation, is_one_dimension

__all__ = ["RULES"]


def _count_in_product(product: Operation) -> int:
    """Return the bytes of the copies of the two matrices that a library for matrices cannot read (``addmm_impl_cpu_``).

    It can if numbers of a row or a column are side by side, and rows or columns do not overlap
    (``prepare_matrix_for_cublas``).
    """
    *_, left, right = (value for value in product.arguments.values() if isinstance(value, torch.Tensor))
    return sum(map(_count_copy_of_matrix, (left, right)))


def _count_in_matmul(product: Operation) -> int:
    """Return the bytes of the copies for a product of a matrix; of more dimensions there is no rule."""
    dimensions = product.x.dim(), product.arguments["other"].dim()
    return _count_in_product(product) if dimensions in ((2, 2), (2, 1)) else 0


#: The fewest multiplications of a product of two matrices of a batch for which the CPU asks a library.
_FEWEST_MULTIPLICATIONS = 400


def _count_in_batch_product(product: Operation) -> int:
    """Return the bytes of the copies of two matrices of a batch: the CPU multiplies one pair after the other."""
    *_, left, right = (value for value in product.arguments.values() if isinstance(value, torch.Tensor))
    if not product.is_on("cpu") or not (is_plain(left) and is_plain(right) and len(left)):
        return 0
    multiplications = left.shape[1:].numel() * right.shape[2]
    return sum(map(_count_copy_of_matrix, (left[0], right[0]))) if multiplications >= _FEWEST_MULTIPLICATIONS else 0


def _count_copy_of_matrix(matrix: torch.Tensor) -> int:
    """Return the bytes of a copy of a matrix, if its product with another matrix makes one."""
    if matrix.dim() != 2 or not is_plain(matrix):
        return 0
    sizes, strides = matrix.shape, matrix.stride()
    is_readable = any(strides[inner] == 1 and strides[1 - inner] >= sizes[inner] for inner in (0, 1))
    return 0 if is_readable else matrix.nbytes


def _count_in_linear(linear: Operation) -> int:
    """Return the bytes of the copy of an input whose rows lie apart in memory (``LinearAlgebra.cpp``).

    The rows of a layer that is trained become one matrix, in a pass without gradients too. For another layer matrices
    are multiplied one by one, and only those must have one distance from each other.
    """
    x, weight = linear.x, linear.arguments["weight"]
    if not is_plain(x):
        return 0
    if x.dim() < 3:
        return _count_copy_of_matrix(x) + _count_copy_of_matrix(weight)
    joined = x.dim() - (1 if weight.requires_grad else 2)
    dimensions = [(x.stride(dim), x.shape[dim]) for dim in range(joined) if x.shape[dim] > 1]
    return _count_copy_of_matrix(weight) + (0 if is_one_dimension(dimensions) else x.nbytes)


#: The operators of each rule.
RULES: dict[Callable[[Operation], int], str] = {
    _count_in_product: "mm.default addmm.default mv.default addmv.default",
    _count_in_matmul: "matmul.default",
    _count_in_batch_product: "bmm.default baddbmm.default",
    _count_in_linear: "linear.default",
}
