"""Decompositions and solutions: which operator goes to which formula."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from profilerkit.costs import linear_algebra

from .families import register_free, register_op_costs
from .registry import Cost, Shape, register_op_cost


def _batch(matrices: Shape) -> int:
    return Shape(matrices[:-2]).numel


#: The formula for each square matrix of a batch, by operators.
_BY_SQUARE: dict[str, Callable[[int, int], Cost]] = {
    "aten::linalg_cholesky_ex aten::cholesky aten::linalg_ldl_factor_ex": linear_algebra.cholesky,
    "aten::linalg_inv_ex": linear_algebra.inverse,
    "aten::cholesky_inverse": linear_algebra.cholesky_inverse,
    "aten::linalg_eig": linear_algebra.eigenvalues,
    "aten::linalg_eigvals aten::_linalg_eigvals": partial(linear_algebra.eigenvalues, vectors=False),
    "aten::linalg_matrix_exp": linear_algebra.matrix_exponential,
}
#: The same for matrices of any size; a determinant is the product of the diagonal of a decomposition.
_BY_SIZES: dict[str, Callable[[int, int, int], Cost]] = {
    "aten::linalg_lu_factor_ex aten::linalg_lu aten::_linalg_det aten::_linalg_slogdet": linear_algebra.lu,
    "aten::geqrf": linear_algebra.householder,
}


def _price_squares(formula: Callable[[int, int], Cost], x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    return formula(_batch(x), x[-1])


def _price_matrices(formula: Callable[[int, int, int], Cost], x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    return formula(_batch(x), x[-2], x[-1])


for _names, _square in _BY_SQUARE.items():
    register_op_costs(_names)(partial(_price_squares, _square))
for _names, _sized in _BY_SIZES.items():
    register_op_costs(_names)(partial(_price_matrices, _sized))


# The systems to solve: several right-hand sides, or a batch of them, may share one matrix -----------------------------


@register_op_cost("aten::_linalg_solve_ex")
def solve(a: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost of the decompositions, of which there are as many as in the output, and of the solutions."""
    solutions, decomposed = out[:2]
    batch = _batch(decomposed)
    return linear_algebra.solve(batch, a[-1], _count_sides(solutions, a) // max(batch, 1))


def _price_solutions(
    formula: Callable[[int, int, int], Cost], position: int, *tensors: Any, out: Any, **_: Any
) -> Cost:
    """Return the cost of solutions by a matrix at a position, which is triangular or decomposed already."""
    matrix = tensors[position]
    return formula(1, matrix[-1], _count_sides(out if isinstance(out, Shape) else out[0], matrix))


for _names, _solve, _position in (
    ("aten::linalg_lu_solve aten::linalg_ldl_solve", linear_algebra.solve_factored, 0),
    ("aten::cholesky_solve aten::_cholesky_solve_helper", linear_algebra.solve_factored, 1),
    ("aten::linalg_solve_triangular", linear_algebra.solve_triangular, 0),
    ("aten::triangular_solve", linear_algebra.solve_triangular, 1),
):
    register_op_costs(_names)(partial(_price_solutions, _solve, _position))


@register_op_cost("aten::linalg_lstsq")
def least_squares(a: Shape, b: Shape, rcond: Any = None, *, driver: str | None = None, out: Any) -> Cost:
    """Return the cost of the decomposition that the driver takes, and of the solutions."""
    by_values = driver in ("gelsd", "gelss")
    is_vector = len(b) == len(a) - 1
    right_sides = 1 if is_vector else b[-1]
    batch = _count_sides(out[0], a) // max(right_sides, 1)
    return linear_algebra.least_squares(batch, a[-2], a[-1], right_sides, by_values)


def _count_sides(solutions: Shape, matrix: Shape) -> int:
    """Return the number of solutions, in all samples: each has as many elements as the matrix has columns."""
    return solutions.numel // max(matrix[-1], 1)


# Decompositions by reflections, and values ----------------------------------------------------------------------------


@register_op_cost("aten::linalg_qr")
def qr(x: Shape, mode: str = "reduced", *, out: Any) -> Cost:
    """Return the cost of R, and of Q by the mode."""
    return linear_algebra.qr(_batch(x), x[-2], x[-1], mode)


@register_op_cost("aten::linalg_householder_product")
def householder_product(x: Shape, scales: Shape, *, out: Shape) -> Cost:
    """Return the cost of the product of reflections."""
    return linear_algebra.householder_product(_batch(x), x[-2], x[-1], scales[-1])


@register_op_cost("aten::ormqr")
def apply_reflections(
    x: Shape, scales: Shape, other: Shape, left: bool = True, transpose: bool = False, *, out: Shape
) -> Cost:
    """Return the cost of applying reflections to each column, or row."""
    length, columns = (other[-2], other[-1]) if left else (other[-1], other[-2])
    return linear_algebra.apply_reflections(_batch(other), length, columns, scales[-1])


@register_op_costs("aten::_linalg_svd", "prims::svd")
def svd(x: Shape, full_matrices: bool = False, compute_uv: bool = True, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost of the values, and of thin or full vectors."""
    return linear_algebra.singular_values(_batch(x), x[-2], x[-1], bool(compute_uv), bool(full_matrices))


# Torch computes U and V only if gradients or a mode may need them.
register_op_cost(
    "aten::linalg_svdvals", partial(_price_matrices, partial(linear_algebra.singular_values, vectors=False))
)


@register_op_cost("aten::_linalg_eigh")
def symmetric_eigen(x: Shape, uplo: str = "L", compute_v: bool = True, *, out: Any, **_: Any) -> Cost:
    """Return the cost of the values, and of the vectors."""
    return linear_algebra.symmetric_eigenvalues(_batch(x), x[-1], bool(compute_v))


register_op_cost(
    "aten::linalg_eigvalsh", partial(_price_squares, partial(linear_algebra.symmetric_eigenvalues, vectors=False))
)


@register_op_costs("aten::linalg_pinv.atol_rtol_tensor", "aten::linalg_pinv.atol_rtol_tensor_out")
def pseudo_inverse(x: Shape, *_: Any, hermitian: bool = False, out: Shape, **__: Any) -> Cost:
    """Return the cost of the decomposition, and of the product."""
    return linear_algebra.pseudo_inverse(_batch(x), x[-2], x[-1], bool(hermitian))


# unpacked values were computed before
register_free("aten", "lu_unpack _linalg_check_errors")
