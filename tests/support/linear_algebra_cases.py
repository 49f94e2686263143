"""Decompositions: Golub and Van Loan's totals for a batch of 2 or 3, of 6 x 3 or 3 x 3 matrices, by hand."""

from __future__ import annotations

from collections.abc import Callable

from profilerkit.costs import Cost
from profilerkit.costs import linear_algebra as la

__all__ = ["LINEAR_ALGEBRA"]

LINEAR_ALGEBRA: list[tuple[Callable[[], Cost], int]] = [
    (lambda: la.cholesky(2, 3), 2 * 9),  # 27 / 3
    (lambda: la.cholesky(2, 4), 2 * 21),  # 64 / 3 is 21.33
    (lambda: la.lu(2, 3, 3), 2 * 18),  # 2 * 27 / 3
    (lambda: la.lu(2, 6, 3), 2 * 45),  # 9 * (6 - 1)
    (lambda: la.lu(2, 3, 6), 2 * 45),
    (lambda: la.inverse(2, 3), 2 * 54),
    (lambda: la.inverse(3, 2), 3 * 16),
    (lambda: la.cholesky_inverse(2, 3), 2 * 18),
    (lambda: la.solve(2, 3, 5), 2 * (18 + 2 * 9 * 5)),
    (lambda: la.solve_factored(2, 3, 5), 2 * 2 * 9 * 5),
    (lambda: la.solve_factored(3, 2, 5), 3 * 2 * 4 * 5),
    (lambda: la.solve_triangular(2, 3, 5), 2 * 9 * 5),
    (lambda: la.solve_banded_triangular(2, 6, 3, 5), 2 * (1 + 3 + 4 * 5) * 5),  # rows of 1, 2 and 3 elements
    (lambda: la.solve_banded_triangular(2, 6, 6, 5), 2 * 6**2 * 5),  # a whole triangle
    (lambda: la.solve_banded_triangular(2, 6, 9, 5), 2 * 6**2 * 5),  # three diagonals beyond the matrix
    (lambda: la.solve_tridiagonal(2, 6, 3), 2 * (3 * 6 + 5 * 6 * 3)),
    (lambda: la.hessenberg(2, 3), 2 * 90),  # 10 * 27 / 3
    (lambda: la.qr(2, 6, 3, "r"), 2 * 90),  # 2 * 9 * (6 - 1)
    (lambda: la.qr(3, 3, 3, "r"), 3 * 36),  # 2 * 9 * (3 - 1)
    (lambda: la.qr(2, 6, 3), 2 * (90 + 90)),
    (lambda: la.qr(2, 3, 6), 2 * (90 + 36)),  # thin Q of 3 rows: 2 * 9 * (3 - 1)
    (lambda: la.qr(2, 6, 3, "complete"), 2 * (90 + 252)),  # 4 * (36 * 3 - 6 * 9 + 9)
    (lambda: la.householder(2, 6, 3), 2 * 90),
    (lambda: la.householder_product(2, 6, 4, 3), 2 * (288 - 180 + 36)),
    (lambda: la.apply_reflections(2, 6, 4, 3), 2 * (2 * 4 * 3 * 9)),
    (lambda: la.singular_values(2, 6, 3, vectors=False), 2 * (216 - 36)),
    (lambda: la.singular_values(2, 3, 6), 2 * (14 * 54 + 8 * 27)),
    (lambda: la.singular_values(2, 6, 3, full=True), 2 * (4 * 108 + 8 * 54 + 9 * 27)),
    (lambda: la.symmetric_eigenvalues(2, 3, vectors=False), 2 * 36),
    (lambda: la.symmetric_eigenvalues(2, 3), 2 * 243),
    (lambda: la.eigenvalues(2, 3), 2 * 675),
    (lambda: la.eigenvalues(2, 3, vectors=False), 2 * 270),
    (lambda: la.least_squares(2, 6, 3, 5), 2 * (90 + (72 - 9) * 5)),
    (lambda: la.least_squares(2, 6, 3, 5, by_singular_values=True), 2 * (216 + 216 + 63 * 5)),
    (lambda: la.normal_equations(2, 6, 3, 5), 2 * (9 * 6 + 9 + (36 + 18) * 5)),
    (lambda: la.normal_equations(2, 3, 6, 5), 2 * (9 * 6 + 9 + (36 + 18) * 5)),
    (lambda: la.pseudo_inverse(2, 6, 3), 2 * (14 * 54 + 8 * 27 + 108)),
    (lambda: la.pseudo_inverse(2, 3, 3, hermitian=True), 2 * (243 + 54)),
    (lambda: la.matrix_exponential(2, 3), 2 * 342),  # 2 * (6 + 1 / 3) * 27
]
