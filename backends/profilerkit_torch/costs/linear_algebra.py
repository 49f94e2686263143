"""Decompositions and solutions, by the counts of Golub and Van Loan, Matrix Computations (4th edition).

They are FLOPs without multiply-accumulates: no fixed share of them is products that are added up. Terms of lower order
are left out, as they are there. Iterations to a tolerance count as the customary number of them, as there too.
"""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_free, register_op_cost, register_op_costs


def _of_thirds(matrices: Shape, thirds: int) -> Cost:
    """Return a third of so many operations for each matrix of a batch, rounded."""
    return Cost(0, Shape(matrices[:-2]).numel * round(thirds / 3))


def _columns(b: Shape, matrix: Shape, left: bool = True) -> int:
    """Return how many right-hand sides there are for each matrix: a vector is one."""
    if len(b) == 1 or (len(b) == len(matrix) - 1 and b == matrix[:-1]):
        return 1
    return b[-1] if left else b[-2]


@register_op_costs("aten::linalg_cholesky_ex", "aten::cholesky", "aten::linalg_ldl_factor_ex")
def cholesky(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """``n ** 3 / 3`` (section 4.2), for the symmetric indefinite as well (section 4.4)."""
    return _of_thirds(x, x[-1] ** 3)


@register_op_costs("aten::linalg_lu_factor_ex", "aten::linalg_lu", "aten::_linalg_det", "aten::_linalg_slogdet")
def lu(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """``2 * n ** 3 / 3`` (section 3.2); ``s ** 2 * (l - s / 3)`` of the shorter and longer side of one not square.

    A determinant is the product of the diagonal.
    """
    shorter, longer = min(x[-2:]), max(x[-2:])
    return _of_thirds(x, 3 * shorter**2 * longer - shorter**3)


@register_op_cost("aten::linalg_inv_ex")
def inverse(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """``2 * n ** 3``: the decomposition into triangles, and n solutions with unit vectors (section 3.4)."""
    return _of_thirds(x, 6 * x[-1] ** 3)


@register_op_cost("aten::cholesky_inverse")
def cholesky_inverse(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``2 * n ** 3 / 3``: the inverse of a triangle, and its product with its own transpose."""
    return _of_thirds(x, 2 * x[-1] ** 3)


@register_op_cost("aten::_linalg_solve_ex")
def solve(a: Shape, b: Shape, *_: Any, left: bool = True, out: Any, **__: Any) -> Cost:
    """``2 * n ** 3 / 3``, and ``2 * n ** 2`` for each right-hand side (section 3.4)."""
    n = a[-1]
    return _of_thirds(a, 2 * n**3 + 6 * n**2 * _columns(b, a, left))


@register_op_cost("aten::linalg_lu_solve")
def lu_solve(a: Shape, pivots: Any, b: Shape, *_: Any, left: bool = True, out: Shape, **__: Any) -> Cost:
    """``2 * n ** 2`` for each right-hand side: one triangle, then the other (section 3.1)."""
    return _of_thirds(out, 6 * a[-1] ** 2 * _columns(b, a, left))


@register_op_cost("aten::linalg_ldl_solve")
def ldl_solve(a: Shape, pivots: Any, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``2 * n ** 2`` for each right-hand side, as two triangles."""
    return _of_thirds(out, 6 * a[-1] ** 2 * b[-1])


@register_op_costs("aten::cholesky_solve", "aten::_cholesky_solve_helper")
def cholesky_solve(b: Shape, a: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``2 * n ** 2`` for each right-hand side: the triangle, then its transpose (section 4.2)."""
    return _of_thirds(out, 6 * a[-1] ** 2 * b[-1])


@register_op_cost("aten::linalg_solve_triangular")
def solve_triangular(a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``n ** 2`` for each right-hand side (section 3.1), whichever side the triangle is on."""
    return Cost(0, out.numel * a[-1])


@register_op_cost("aten::triangular_solve")
def triangular_solve(b: Shape, a: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """``n ** 2`` for each right-hand side (section 3.1)."""
    return Cost(0, out[0].numel * a[-1])


@register_op_cost("aten::linalg_qr")
def qr(x: Shape, mode: str = "reduced", *, out: Any) -> Cost:
    """``2 * s ** 2 * (l - s / 3)`` of the shorter and longer side for R, by Householder's reflections (section 5.2).

    Thin Q takes ``2 * s ** 2 * (m - s / 3)`` of m rows, full Q ``4 * (m ** 2 * s - m * s ** 2 + s ** 3 / 3)``.
    """
    rows, shorter = x[-2], min(x[-2:])
    thin = 6 * shorter**2 * rows - 2 * shorter**3
    full = 12 * (rows**2 * shorter - rows * shorter**2) + 4 * shorter**3
    return _of_thirds(x, _reflections(x) + {"r": 0, "reduced": thin, "complete": full}[mode])


def _reflections(x: Shape) -> int:
    shorter, longer = min(x[-2:]), max(x[-2:])
    return 6 * shorter**2 * longer - 2 * shorter**3


@register_op_cost("aten::geqrf")
def geqrf(x: Shape, *, out: Any, **_: Any) -> Cost:
    """``2 * s ** 2 * (l - s / 3)`` of the shorter and longer side (section 5.2)."""
    return _of_thirds(x, _reflections(x))


@register_op_cost("aten::linalg_householder_product")
def householder_product(x: Shape, scales: Shape, *, out: Shape) -> Cost:
    """``4 * (m * n * k) - 2 * (m + n) * k ** 2 + 4 * k ** 3 / 3`` for n columns of k reflections (LAPACK's dorgqr)."""
    m, n, k = x[-2], x[-1], scales[-1]
    return _of_thirds(x, 12 * m * n * k - 6 * (m + n) * k**2 + 4 * k**3)


@register_op_cost("aten::ormqr")
def apply_reflections(
    x: Shape, scales: Shape, other: Shape, left: bool = True, transpose: bool = False, *, out: Shape
) -> Cost:
    """``2 * c * k * (2 * m - k)``: k reflections of length m, for each of c columns (section 5.1)."""
    length, columns = (other[-2], other[-1]) if left else (other[-1], other[-2])
    k = scales[-1]
    return _of_thirds(other, 6 * columns * k * (2 * length - k))


@register_op_cost("aten::_linalg_svd")
def svd(x: Shape, full_matrices: bool = False, compute_uv: bool = True, *_: Any, out: Any, **__: Any) -> Cost:
    """``4 * m * n ** 2 - 4 * n ** 3 / 3`` for the values alone; with thin U and V ``14 * m * n ** 2 + 8 * n ** 3``.

    With a full U ``4 * m ** 2 * n + 8 * m * n ** 2 + 9 * n ** 3``; all by Golub and Reinsch, m >= n (section 8.6).
    """
    m, n = max(x[-2:]), min(x[-2:])
    values, thin = 12 * m * n**2 - 4 * n**3, 42 * m * n**2 + 24 * n**3
    full = 12 * m**2 * n + 24 * m * n**2 + 27 * n**3
    return _of_thirds(x, (full if full_matrices else thin) if compute_uv else values)


@register_op_cost("aten::linalg_svdvals")
def singular_values(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """As above for the values alone: torch computes U and V too only where gradients or a watching mode may ask."""
    return svd(x, compute_uv=False, out=out)


@register_op_cost("prims::svd")
def primitive_svd(x: Shape, *, full_matrices: bool = False, out: Any) -> Cost:
    """As above, values and vectors."""
    return svd(x, full_matrices, out=out)


@register_op_cost("aten::_linalg_eigh")
def symmetric_eigen(x: Shape, uplo: str = "L", compute_v: bool = True, *, out: Any, **_: Any) -> Cost:
    """``4 * n ** 3 / 3`` for the values alone, ``9 * n ** 3`` with the vectors (section 8.3)."""
    return _of_thirds(x, (27 if compute_v else 4) * x[-1] ** 3)


@register_op_cost("aten::linalg_eigvalsh")
def symmetric_eigenvalues(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """As above for the values alone."""
    return symmetric_eigen(x, compute_v=False, out=out)


@register_op_cost("aten::linalg_eig")
def eigen(x: Shape, *, out: Any, **_: Any) -> Cost:
    """``25 * n ** 3`` for values and vectors, by Francis' QR steps (section 7.5)."""
    return _of_thirds(x, 75 * x[-1] ** 3)


@register_op_costs("aten::linalg_eigvals", "aten::_linalg_eigvals")
def eigenvalues(x: Shape, *, out: Any) -> Cost:
    """``10 * n ** 3`` for the values alone, by Francis' QR steps (section 7.5)."""
    return _of_thirds(x, 30 * x[-1] ** 3)


@register_op_cost("aten::linalg_lstsq")
def least_squares(a: Shape, b: Shape, rcond: Any = None, *, driver: str | None = None, out: Any) -> Cost:
    """``2 * n ** 2 * (m - n / 3)``, and ``4 * m * n - n ** 2`` for each right-hand side (sections 5.3 and 5.2).

    That is by Householder's reflections, m >= n; the drivers by singular values take ``4 * m * n ** 2 + 8 * n ** 3`` in
    place of the first (section 5.5).
    """
    m, n = max(a[-2:]), min(a[-2:])
    by_values = driver in ("gelsd", "gelss")
    decomposition = 12 * m * n**2 + 24 * n**3 if by_values else 6 * m * n**2 - 2 * n**3
    return _of_thirds(a, decomposition + 3 * (4 * m * n - n**2) * _columns(b, a))


@register_op_costs("aten::linalg_pinv.atol_rtol_tensor", "aten::linalg_pinv.atol_rtol_tensor_out")
def pseudo_inverse(x: Shape, *_: Any, hermitian: bool = False, out: Shape, **__: Any) -> Cost:
    """The decomposition into singular values (or eigenvalues, of a symmetric one) and ``2 * m * n ** 2``."""
    m, n = max(x[-2:]), min(x[-2:])
    decomposition = 27 * n**3 if hermitian else 42 * m * n**2 + 24 * n**3
    return _of_thirds(x, decomposition + 6 * m * n**2)


@register_op_cost("aten::linalg_matrix_exp")
def matrix_exponential(x: Shape, *, out: Shape) -> Cost:
    """``2 * (q + 1 / 3) * n ** 3`` with q = 6, by Pade's approximation to double precision (section 9.3).

    A norm above one half takes a squaring for each power of two that it is larger; these are not counted.
    """
    return _of_thirds(x, (6 * 6 + 2) * x[-1] ** 3)


# what is unpacked was computed before
register_free("aten::lu_unpack", "aten::_linalg_check_errors")
