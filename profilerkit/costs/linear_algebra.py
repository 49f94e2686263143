"""Decompositions and solutions, by the counts of Golub and Van Loan, Matrix Computations (4th edition, 2013).

They are FLOPs without multiply-accumulates: no fixed share of them is products that are added up. Like in the book,
terms of lower order are left out, and iterations to a tolerance count as the customary number of iterations. These
counts are totals of a book, not sums of elementary functions, so they are here and not in `convention`.

Half of them are products and half additions: for complex numbers each operation is four, like in LAPACK.

All take ``batch``, the number of matrices. Some formulas have thirds: the cost of one matrix is rounded.
"""

from __future__ import annotations

from fractions import Fraction

from .cost import Cost
from .numbers import constants as c

_THIRD = Fraction(1, 3)


def _make_cost(batch: int, operations: int | Fraction) -> Cost:
    """Return the cost of so many operations for each matrix of a batch."""
    return Cost(0, batch * c.SOLUTION * round(operations))


def cholesky(batch: int, n: int) -> Cost:
    """``n ** 3 / 3`` (section 4.2), for the symmetric indefinite as well (section 4.4)."""
    return _make_cost(batch, _THIRD * n**3)


def lu(batch: int, rows: int, columns: int) -> Cost:
    """``2 * n ** 3 / 3`` (section 3.2); ``s ** 2 * (l - s / 3)`` of the shorter and longer side of one not square.

    A determinant is the product of the diagonal.
    """
    shorter, longer = sorted((rows, columns))
    return _make_cost(batch, shorter**2 * (longer - _THIRD * shorter))


def inverse(batch: int, n: int) -> Cost:
    """``2 * n ** 3``: the decomposition into triangles, and n solutions with unit vectors (section 3.4)."""
    return _make_cost(batch, 2 * n**3)


def cholesky_inverse(batch: int, n: int) -> Cost:
    """``2 * n ** 3 / 3``: the inverse of a triangle, and its product with its own transpose."""
    return _make_cost(batch, 2 * _THIRD * n**3)


def solve(batch: int, n: int, right_sides: int) -> Cost:
    """``2 * n ** 3 / 3``, and ``2 * n ** 2`` for each right-hand side (section 3.4)."""
    return _make_cost(batch, 2 * _THIRD * n**3 + 2 * n**2 * right_sides)


def solve_factored(batch: int, n: int, right_sides: int) -> Cost:
    """``2 * n ** 2`` for each right-hand side: one triangle, then the other (sections 3.1 and 4.2)."""
    return _make_cost(batch, 2 * n**2 * right_sides)


def solve_triangular(batch: int, n: int, right_sides: int) -> Cost:
    """``n ** 2`` for each right-hand side (section 3.1), whichever side the triangle is on."""
    return _make_cost(batch, n**2 * right_sides)


def solve_banded_triangular(batch: int, n: int, diagonals: int, right_sides: int) -> Cost:
    """``n + 2 * p * n - p * (p + 1)`` for each right-hand side, with p diagonals beside the main one (section 4.3)."""
    beside = min(diagonals, n) - 1
    return _make_cost(batch, (n + 2 * beside * n - beside * (beside + 1)) * right_sides)


def solve_tridiagonal(batch: int, n: int, right_sides: int) -> Cost:
    """``3 * n`` for the elimination along three diagonals, and ``5 * n`` for each right-hand side (section 4.3)."""
    return _make_cost(batch, 3 * n + 5 * n * right_sides)


def _count_reflections(rows: int, columns: int) -> Fraction:
    """Return the operations of Householder's reflections that make a matrix triangular."""
    shorter, longer = sorted((rows, columns))
    return 2 * shorter**2 * (longer - _THIRD * shorter)


def qr(batch: int, rows: int, columns: int, mode: str = "reduced") -> Cost:
    """``2 * s ** 2 * (l - s / 3)`` of the shorter and longer side for R, by Householder's reflections (section 5.2).

    Thin Q (mode "reduced") takes ``2 * s ** 2 * (m - s / 3)`` of m rows, full Q (mode "complete")
    ``4 * (m ** 2 * s - m * s ** 2 + s ** 3 / 3)``, and mode "r" none.
    """
    shorter = min(rows, columns)
    thin = 2 * shorter**2 * (rows - _THIRD * shorter)
    full = 4 * (rows**2 * shorter - rows * shorter**2 + _THIRD * shorter**3)
    for_q: dict[str, int | Fraction] = {"r": 0, "reduced": thin, "complete": full}
    return _make_cost(batch, _count_reflections(rows, columns) + for_q[mode])


def householder(batch: int, rows: int, columns: int) -> Cost:
    """``2 * s ** 2 * (l - s / 3)`` of the shorter and longer side (section 5.2)."""
    return _make_cost(batch, _count_reflections(rows, columns))


def householder_product(batch: int, m: int, n: int, k: int) -> Cost:
    """``4 * (m * n * k) - 2 * (m + n) * k ** 2 + 4 * k ** 3 / 3`` for n columns of k reflections (LAPACK's dorgqr)."""
    return _make_cost(batch, 4 * m * n * k - 2 * (m + n) * k**2 + 4 * _THIRD * k**3)


def apply_reflections(batch: int, length: int, columns: int, k: int) -> Cost:
    """``2 * c * k * (2 * m - k)``: k reflections of length m, for each of c columns (section 5.1)."""
    return _make_cost(batch, 2 * columns * k * (2 * length - k))


def singular_values(batch: int, rows: int, columns: int, vectors: bool = True, full: bool = False) -> Cost:
    """``4 * m * n ** 2 - 4 * n ** 3 / 3`` for the values alone; with thin U and V ``14 * m * n ** 2 + 8 * n ** 3``.

    With a full U ``4 * m ** 2 * n + 8 * m * n ** 2 + 9 * n ** 3``; all by Golub and Reinsch, m >= n (section 8.6).
    """
    n, m = sorted((rows, columns))
    if not vectors:
        return _make_cost(batch, 4 * m * n**2 - 4 * _THIRD * n**3)
    if full:
        return _make_cost(batch, 4 * m**2 * n + 8 * m * n**2 + 9 * n**3)
    return _make_cost(batch, 14 * m * n**2 + 8 * n**3)


def symmetric_eigenvalues(batch: int, n: int, vectors: bool = True) -> Cost:
    """``4 * n ** 3 / 3`` for the values alone, ``9 * n ** 3`` with the vectors (section 8.3)."""
    return _make_cost(batch, (9 if vectors else 4 * _THIRD) * n**3)


def hessenberg(batch: int, n: int) -> Cost:
    """``10 * n ** 3 / 3``, by Householder's reflections (section 7.4)."""
    return _make_cost(batch, 10 * _THIRD * n**3)


def eigenvalues(batch: int, n: int, vectors: bool = True) -> Cost:
    """``25 * n ** 3`` for values and vectors, ``10 * n ** 3`` for the values alone, by Francis' steps (section 7.5)."""
    return _make_cost(batch, (25 if vectors else 10) * n**3)


def least_squares(batch: int, rows: int, columns: int, right_sides: int, by_singular_values: bool = False) -> Cost:
    """``2 * n ** 2 * (m - n / 3)``, and ``4 * m * n - n ** 2`` for each right-hand side (sections 5.3 and 5.2).

    That is by Householder's reflections, m >= n; by singular values ``4 * m * n ** 2 + 8 * n ** 3`` in place of the
    first (section 5.5).
    """
    n, m = sorted((rows, columns))
    decomposition = 4 * m * n**2 + 8 * n**3 if by_singular_values else 2 * n**2 * (m - _THIRD * n)
    return _make_cost(batch, decomposition + (4 * m * n - n**2) * right_sides)


def normal_equations(batch: int, rows: int, columns: int, right_sides: int) -> Cost:
    """``n ** 2 * (m + n / 3)``, and ``2 * m * n + 2 * n ** 2`` for each right-hand side (section 5.3), m >= n."""
    n, m = sorted((rows, columns))
    return _make_cost(batch, n**2 * (m + _THIRD * n) + (2 * m * n + 2 * n**2) * right_sides)


def pseudo_inverse(batch: int, rows: int, columns: int, hermitian: bool = False) -> Cost:
    """The decomposition into singular values (or eigenvalues, of a symmetric one) and ``2 * m * n ** 2``."""
    n, m = sorted((rows, columns))
    decomposition = 9 * n**3 if hermitian else 14 * m * n**2 + 8 * n**3
    return _make_cost(batch, decomposition + 2 * m * n**2)


def matrix_exponential(batch: int, n: int) -> Cost:
    """``2 * (q + 1 / 3) * n ** 3`` with q = 6, by Pade's approximation to double precision (section 9.3).

    A norm above one half takes a squaring for each power of two that it is larger; these are not counted.
    """
    return _make_cost(batch, 2 * (6 + _THIRD) * n**3)
