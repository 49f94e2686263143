"""Decompositions and solutions by the counts of Golub and Van Loan, worked out for small matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tiny import cost, ones

L = torch.linalg
SQUARE, TALL = torch.eye(6), torch.eye(6, 3)
BATCH, TALLS, PIVOTS = SQUARE.repeat(2, 1, 1), TALL.repeat(2, 1, 1), torch.arange(1, 7, dtype=torch.int32)
solve_triangle = partial(L.solve_triangular, upper=True)

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], int]] = {
    "cholesky: 6^3 / 3": (L.cholesky, (SQUARE,), 72),
    "cholesky of a batch": (L.cholesky, (SQUARE.expand(5, 6, 6),), 5 * 72),
    "lu: 2 * 6^3 / 3": (L.lu_factor, (SQUARE,), 144),
    "lu of 6 x 3: 9 * (6 - 1)": (L.lu, (TALL,), 45),
    "inverse: 2 * 6^3": (L.inv, (SQUARE,), 432),
    "solve: 2 * 6^3 / 3 + 2 * 6^2 * 4": (L.solve, (SQUARE, ones(6, 4)), 144 + 288),
    "solve for a vector": (L.solve, (SQUARE, ones(6)), 144 + 72),
    "solve from the right": (lambda a, b: L.solve(a, b, left=False), (SQUARE, ones(4, 6)), 144 + 288),
    # one matrix for the right-hand sides of two samples: 2 * 6^3 / 3 once, 2 * 6^2 for each of 2 * 4
    "solve of one matrix for a batch": (L.solve, (SQUARE, ones(2, 6, 4)), 144 + 576),
    "solve of a batch for one right-hand side": (L.solve, (BATCH, ones(6, 4)), 2 * (144 + 288)),
    "solve of a batch for a vector each": (L.solve, (BATCH, ones(2, 6)), 2 * (144 + 72)),
    "lu solve of one matrix for a batch": (L.lu_solve, (SQUARE, PIVOTS, ones(2, 6, 4)), 576),
    "triangular of one matrix for a batch": (solve_triangle, (SQUARE, ones(2, 6, 4)), 288),
    "lu solve": (L.lu_solve, (SQUARE, PIVOTS, ones(6, 4)), 288),
    "triangular: 6^2 * 4": (solve_triangle, (SQUARE, ones(6, 4)), 144),
    "cholesky solve: 2 * 6^2 * 4": (torch.cholesky_solve, (ones(6, 4), SQUARE), 288),
    "cholesky inverse: 2 * 6^3 / 3": (torch.cholesky_inverse, (SQUARE,), 144),
    "qr, R alone: 2 * 9 * (6 - 1)": (lambda x: L.qr(x, mode="r"), (TALL,), 90),
    "qr with a thin Q: as much again": (L.qr, (TALL,), 180),
    "qr with a full Q: 4 * (36 * 3 - 6 * 9 + 9)": (lambda x: L.qr(x, mode="complete"), (TALL,), 90 + 252),
    "geqrf": (torch.geqrf, (TALL,), 90),
    "householder: 4 * 6 * 3 * 3 - 2 * 9 * 9 + 4 * 27 / 3": (L.householder_product, (TALL, ones(3)), 216 - 162 + 36),
    "ormqr: 2 * 4 * 3 * (2 * 6 - 3)": (torch.ormqr, (TALL, ones(3), ones(6, 4)), 216),
    "singular values: 4 * 6 * 9 - 4 * 27 / 3": (L.svdvals, (TALL,), 180),
    "svd, thin: 14 * 6 * 9 + 8 * 27": (lambda x: L.svd(x, full_matrices=False), (TALL,), 972),
    "svd, full: 4 * 36 * 3 + 8 * 6 * 9 + 9 * 27": (L.svd, (TALL,), 1107),
    "eigenvalues of a symmetric one: 4 * 6^3 / 3": (L.eigvalsh, (SQUARE,), 288),
    "eigenvectors of a symmetric one: 9 * 6^3": (L.eigh, (SQUARE,), 1944),
    "eigenvalues: 10 * 6^3": (L.eigvals, (SQUARE,), 2160),
    "eigenvectors: 25 * 6^3": (L.eig, (SQUARE,), 5400),
    "least squares: 2 * 9 * 5 + 4 * (4 * 18 - 9)": (L.lstsq, (TALL, ones(6, 4)), 90 + 252),
    "least squares of one matrix of two": (
        lambda a, b: L.lstsq(a, b)[0],
        (TALL.repeat(2, 1, 1), ones(1, 6, 4)),
        2 * 342,
    ),
    "least squares for a vector each": (L.lstsq, (TALLS, ones(2, 6)), 2 * 153),
    "matrix exponential: 2 * 19 / 3 * 216": (L.matrix_exp, (SQUARE,), 2736),
    "cross product: 3 for each": (L.cross, (ones(5, 3), ones(5, 3)), 45),
}


@pytest.mark.parametrize("case", CASES)
def test_decomposition_or_solution(case: str) -> None:
    function, inputs, flops = CASES[case]
    assert cost(function, *inputs) == (0, flops)


def test_a_determinant_is_the_product_of_the_diagonal_of_its_triangle() -> None:
    macs, flops = cost(L.det, SQUARE)
    assert macs == 0
    assert 144 <= flops <= 144 + 6 + 6  # six factors, and the sign of the exchanges


def test_a_pseudo_inverse_takes_the_singular_values() -> None:
    """14 * 6 * 9 + 8 * 27, and a product of 2 * 6 * 9."""
    assert cost(L.pinv, TALL) == (0, 972 + 108)
