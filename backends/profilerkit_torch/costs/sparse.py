"""Products with sparse matrices: one multiply-accumulate for each stored element and each column of the other factor.

The elements that a sparse matrix does not store are not computed and not counted: the cost is proportional to the
stored elements, in every layout (COO, CSR, CSC; whole blocks of BSR and BSC). Their number is known in a real run.
"""

from __future__ import annotations

from typing import Any

from profilerkit.costs import activation as activations
from profilerkit.costs import matmul, reduction

from .families import register_free, register_op_costs
from .registry import Cost, Shape, register_op_cost
from .shapes import SparseShape


def count_stored(x: Shape) -> int:
    """Return the elements that a tensor keeps: all of them unless it is sparse."""
    return x.stored if isinstance(x, SparseShape) else x.numel


def multiply_stored(a: Shape, b: Shape) -> Cost:
    """Return the cost of ``a @ b`` if one of them is sparse: its stored elements, times the products of each element.

    For two sparse matrices it is an average: each stored element of a is multiplied by a row of b.
    """
    if isinstance(a, SparseShape) and isinstance(b, SparseShape):
        return matmul.product(a.stored * b.stored // max(b[-2], 1))
    if isinstance(b, SparseShape):
        return matmul.product(b.stored * a[-2])
    return matmul.product(count_stored(a) * b[-1])


@register_op_costs("aten::_sparse_sparse_matmul", "aten::hspmm", "aten::_sparse_mm_reduce_impl")
def sparse_mm(a: Shape, b: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """``a @ b``: the stored elements of a, times the columns of b."""
    return multiply_stored(a, b)


@register_op_cost("aten::sparse_sampled_addmm")
def addmm_at_samples(mask: Shape, a: Shape, b: Shape, *, beta: float = 1, alpha: float = 1, out: Shape) -> Cost:
    """``beta * mask + alpha * (a @ b)`` where the mask has elements: for each a product of k, and an addition."""
    stored = count_stored(mask)
    return matmul.product(stored * a[-1]).plus(matmul.scale_and_add(stored, stored, alpha, beta))


@register_op_cost("aten::_sparse_semi_structured_mm")
def semi_structured_mm(weight: Shape, indices: Any, x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``weight @ x``, half of the weight being kept: n * k / 2 stored elements times m columns."""
    return matmul.product(weight.numel * x[-1])


@register_op_cost("aten::_sparse_semi_structured_addmm")
def semi_structured_addmm(
    bias: Shape, weight: Shape, indices: Any, x: Shape, *, alpha: float = 1, beta: float = 1, out: Shape, **_: Any
) -> Cost:
    """``beta * bias + alpha * (weight @ x)``, half of the weight being kept: n * k / 2 times m, and an addition."""
    return matmul.product(weight.numel * x[-1]).plus(matmul.scale_and_add(out.numel, bias.numel, alpha, beta))


@register_op_cost("aten::_sparse_semi_structured_linear")
def semi_structured_linear(
    x: Shape,
    weight: Shape,
    indices: Any,
    *,
    bias: Shape | None = None,
    activation: str | None = None,
    out: Shape,
    **__: Any,
) -> Cost:
    """``activation(x @ weight.T + bias)``, half of the weight being kept: its stored elements for each row of x."""
    cost = matmul.product(Shape(x[:-1]).numel * weight.numel, out.numel if bias is not None else 0)
    return activations.add_activation(cost, out.numel, None if activation == "none" else activation)


@register_op_cost("aten::_coalesce")
def coalesce(x: Shape, *_: Any, out: Any) -> Cost:
    """One addition for each stored element: elements at the same index are added up."""
    return reduction.total(x.stored if isinstance(x, SparseShape) else 0)


@register_op_costs("aten::_sparse_sum", "aten::_sparse_csr_sum", "aten::_sparse_csr_prod")
def sparse_sum(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """One operation for each stored element."""
    return reduction.total(count_stored(x))


# making sparse tensors, converting layouts, and reading sizes
register_free(
    "aten",
    """
    _to_sparse _to_sparse_csr _to_sparse_csc _to_sparse_bsr _to_sparse_bsc _to_sparse_semi_structured
    _sparse_semi_structured_apply _sparse_semi_structured_apply_dense _sparse_semi_structured_tile _to_dense
    to_mkldnn sparse_mask _sparse_mask_projection sparse_coo_tensor sparse_compressed_tensor
    _sparse_coo_tensor_with_dims_and_tensors _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo
    _validate_compressed_sparse_indices _coalesced_ _coalesced _spdiags _nnz _dimI _dimV dense_dim sparse_dim
    is_coalesced sparse_resize_ sparse_resize_and_clear_ sparse_resize sparse_resize_and_clear
    copy_sparse_to_sparse_ copy_sparse_to_sparse resize_as_sparse_ resize_as_sparse _cslt_compress
    _cslt_sparse_mm_search
    """,
)
