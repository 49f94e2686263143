"""Transforms, decompositions and optimisers' updates, by published counts or their published rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import tensorflow as tf
from calls import cost, raw_cost, spec

from profilerkit_tensorflow.costs import UnknownShapeError

# Five operations for each of n * log2(n) complex points, half for real ones.
TRANSFORMS: dict[str, tuple[str, Callable[[Any], Any], Any, float]] = {
    "complex": ("FFT", tf.signal.fft, spec(2, 8, dtype="complex64"), 5 * (2 * 8) * 3),
    "back": ("IFFT", tf.signal.ifft, spec(2, 8, dtype="complex64"), 5 * (2 * 8) * 3),
    "in two dimensions": ("FFT2D", tf.signal.fft2d, spec(2, 8, 4, dtype="complex64"), 5 * (2 * 8 * 4) * 5),
    "in three": ("FFT3D", tf.signal.fft3d, spec(2, 8, 4, 2, dtype="complex64"), 5 * (2 * 8 * 4 * 2) * 6),
    "real": ("RFFT", tf.signal.rfft, spec(2, 8), 2.5 * (2 * 8) * 3),
    "real, padded to 16": ("RFFT", lambda x: tf.signal.rfft(x, [16]), spec(2, 8), 2.5 * (2 * 16) * 4),
    "to real": ("IRFFT", lambda x: tf.signal.irfft(x, [8]), spec(2, 5, dtype="complex64"), 2.5 * (2 * 8) * 3),
    "real in two": ("RFFT2D", tf.signal.rfft2d, spec(2, 8, 4), 2.5 * (2 * 8 * 4) * 5),
}


@pytest.mark.parametrize("case", TRANSFORMS)
def test_transform(case: str) -> None:
    kind, function, x, flops = TRANSFORMS[case]
    assert cost(kind, function, x) == (0, flops)


def test_transform_of_a_length_that_is_not_known() -> None:
    with pytest.raises(UnknownShapeError):
        cost("RFFT", lambda x, length: tf.raw_ops.RFFT(input=x, fft_length=length), spec(2, 8), spec(1, dtype="int32"))


# Golub and Van Loan, Matrix Computations; two matrices each.
SQUARE, TALL, WIDE, RIGHT = spec(2, 6, 6), spec(2, 9, 6), spec(2, 6, 9), spec(2, 6, 4)
DECOMPOSITIONS: dict[str, tuple[str, Callable[..., Any], tuple[Any, ...], int]] = {
    "cholesky": ("Cholesky", tf.linalg.cholesky, (SQUARE,), 2 * 6**3 // 3),
    "triangles": ("Lu", tf.linalg.lu, (SQUARE,), 2 * (2 * 6**3 // 3)),
    "determinant": ("MatrixDeterminant", tf.linalg.det, (SQUARE,), 2 * (2 * 6**3 // 3)),
    "inverse": ("MatrixInverse", tf.linalg.inv, (SQUARE,), 2 * 2 * 6**3),
    "solution": ("MatrixSolve", tf.linalg.solve, (SQUARE, RIGHT), 2 * (2 * 6**3 // 3 + 2 * 6**2 * 4)),
    "solution by a triangle": ("MatrixTriangularSolve", tf.linalg.triangular_solve, (SQUARE, RIGHT), 2 * 6**2 * 4),
    "solution by three diagonals of a triangle": (
        "BandedTriangularSolve",
        tf.linalg.banded_triangular_solve,
        (spec(2, 3, 6), RIGHT),
        2 * (1 + 3 + 4 * 5) * 4,
    ),
    "solution by three diagonals": (
        "TridiagonalSolve",
        partial(tf.linalg.tridiagonal_solve, diagonals_format="compact"),
        (spec(2, 3, 6), RIGHT),
        2 * (3 * 6 + 5 * 6 * 4),
    ),
    "least squares": (
        "MatrixSolveLs",
        partial(tf.linalg.lstsq, fast=False),
        (TALL, spec(2, 9, 4)),
        2 * (2 * 6**2 * (9 - 2) + (4 * 9 * 6 - 6**2) * 4),
    ),
    "thin qr: R and Q alike": ("Qr", tf.linalg.qr, (TALL,), 2 * 2 * (2 * 6**2 * (9 - 6 // 3))),
    "full qr": (
        "Qr",
        partial(tf.linalg.qr, full_matrices=True),
        (TALL,),
        2 * (2 * 6**2 * (9 - 2) + 4 * (9**2 * 6 - 9 * 6**2 + 6**3 // 3)),
    ),
    "qr of a wide matrix": ("Qr", tf.linalg.qr, (WIDE,), 2 * (2 * 6**2 * (9 - 2) + 4 * 6**3 // 3)),
    "singular values": ("Svd", partial(tf.linalg.svd, compute_uv=False), (TALL,), 2 * (4 * 9 * 6**2 - 4 * 6**3 // 3)),
    "thin svd": ("Svd", tf.linalg.svd, (TALL,), 2 * (14 * 9 * 6**2 + 8 * 6**3)),
    "full svd": (
        "Svd",
        partial(tf.linalg.svd, full_matrices=True),
        (WIDE,),
        2 * (4 * 9**2 * 6 + 8 * 9 * 6**2 + 9 * 6**3),
    ),
    "eigenvalues": ("SelfAdjointEigV2", tf.linalg.eigvalsh, (SQUARE,), 2 * 4 * 6**3 // 3),
    "values of any matrix": ("Eig", tf.linalg.eigvals, (SQUARE,), 2 * 10 * 6**3),
    "vectors of any matrix": ("Eig", tf.linalg.eig, (SQUARE,), 2 * 25 * 6**3),
    "eigenvectors": ("SelfAdjointEigV2", tf.linalg.eigh, (SQUARE,), 2 * 9 * 6**3),
}


@pytest.mark.parametrize("case", DECOMPOSITIONS)
def test_decomposition(case: str) -> None:
    kind, function, specs, flops = DECOMPOSITIONS[case]
    assert cost(kind, function, *specs) == (0, flops)


def test_least_squares_by_normal_equations() -> None:
    """A product of n * n elements, half of which are computed, its triangles, and for each side a product and both."""
    found = raw_cost("MatrixSolveLs", matrix=TALL, rhs=spec(2, 9, 4), l2_regularizer=spec(dtype="float64"), fast=True)
    assert found == (0, 2 * (6**2 * (9 + 2) + (2 * 9 * 6 + 2 * 6**2) * 4))
