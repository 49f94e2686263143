"""Decompositions and solutions, by the counts of Golub and Van Loan, Matrix Computations (4th edition).

They are FLOPs without multiply-accumulates: no fixed share of them is products that are added up. Terms of lower order
are left out, as they are there. What has no such count (iterations to a tolerance, matrix functions) is not known.
"""

from __future__ import annotations

from .registry import Cost, OpCall, Shape, register_op_cost


def _of_thirds(batch: Shape, thirds: int) -> Cost:
    """Return a third of so many operations for each matrix of a batch, rounded."""
    return Cost(0, batch.numel * round(thirds / 3))


@register_op_cost("Cholesky")
@register_op_cost("BatchCholesky")
def cholesky(call: OpCall) -> Cost:
    """``n ** 3 / 3`` (section 4.2)."""
    *batch, n, _ = call.inputs[0]
    return _of_thirds(Shape(batch), n**3)


@register_op_cost("Lu")
@register_op_cost("MatrixDeterminant")
@register_op_cost("BatchMatrixDeterminant")
@register_op_cost("LogMatrixDeterminant")
def lu(call: OpCall) -> Cost:
    """``2 * n ** 3 / 3`` (section 3.2); the determinant is the product of its diagonal."""
    *batch, n, _ = call.inputs[0]
    return _of_thirds(Shape(batch), 2 * n**3)


@register_op_cost("MatrixInverse")
@register_op_cost("BatchMatrixInverse")
def inverse(call: OpCall) -> Cost:
    """``2 * n ** 3``: the decomposition into triangles, and n solutions with unit vectors (section 3.4)."""
    *batch, n, _ = call.inputs[0]
    return Cost(0, Shape(batch).numel * 2 * n**3)


@register_op_cost("MatrixSolve")
@register_op_cost("BatchMatrixSolve")
def solve(call: OpCall) -> Cost:
    """``2 * n ** 3 / 3``, and ``2 * n ** 2`` for each right-hand side (section 3.4)."""
    *batch, n, columns = call.inputs[1]
    return _of_thirds(Shape(batch), 2 * n**3 + 6 * n**2 * columns)


@register_op_cost("MatrixTriangularSolve")
@register_op_cost("BatchMatrixTriangularSolve")
def triangular_solve(call: OpCall) -> Cost:
    """``n ** 2`` for each right-hand side (section 3.1)."""
    *batch, n, columns = call.outputs[0]
    return Cost(0, Shape(batch).numel * n**2 * columns)


@register_op_cost("Qr")
def qr(call: OpCall) -> Cost:
    """``2 * s ** 2 * (l - s / 3)`` of the shorter and longer side for R, by Householder's reflections (section 5.2).

    Thin Q takes ``2 * s ** 2 * (m - s / 3)`` of m rows, full Q ``4 * (m ** 2 * s - m * s ** 2 + s ** 3 / 3)``.
    """
    *batch, m, n = call.inputs[0]
    shorter, longer = min(m, n), max(m, n)
    triangle = 6 * shorter**2 * longer - 2 * shorter**3
    thin = 6 * shorter**2 * m - 2 * shorter**3
    full = 12 * (m**2 * shorter - m * shorter**2) + 4 * shorter**3
    return _of_thirds(Shape(batch), triangle + (full if call.attribute("full_matrices") else thin))


@register_op_cost("Svd")
def svd(call: OpCall) -> Cost:
    """``4 * m * n ** 2 - 4 * n ** 3 / 3`` for the values alone; with thin U and V ``14 * m * n ** 2 + 8 * n ** 3``.

    With a full U ``4 * m ** 2 * n + 8 * m * n ** 2 + 9 * n ** 3``; all by Golub and Reinsch, m >= n (section 8.6).
    """
    *batch, rows, columns = call.inputs[0]
    m, n = max(rows, columns), min(rows, columns)
    if not call.attribute("compute_uv"):
        return _of_thirds(Shape(batch), 12 * m * n**2 - 4 * n**3)
    if call.attribute("full_matrices"):
        return Cost(0, Shape(batch).numel * (4 * m**2 * n + 8 * m * n**2 + 9 * n**3))
    return Cost(0, Shape(batch).numel * (14 * m * n**2 + 8 * n**3))


@register_op_cost("SelfAdjointEigV2")
def symmetric_eigen(call: OpCall) -> Cost:
    """``4 * n ** 3 / 3`` for the values alone, ``9 * n ** 3`` with the vectors (section 8.3)."""
    *batch, n, _ = call.inputs[0]
    return _of_thirds(Shape(batch), 27 * n**3 if call.attribute("compute_v") else 4 * n**3)
