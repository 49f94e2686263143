"""Decompositions and solutions: the formulas of the operators.

Operators without a textbook count (iterations to a tolerance, matrix functions) are not counted.
"""

from __future__ import annotations

from profilerkit.costs import linear_algebra

from .registry import Cost, OpCall, Shape, register_op_cost, register_op_costs


def _matrices(shape: Shape) -> tuple[int, int, int]:
    """Return the number of matrices, and their rows and columns."""
    return Shape(shape[:-2]).numel, shape[-2], shape[-1]


@register_op_cost("Cholesky")
def cholesky(call: OpCall) -> Cost:
    """Return the cost of a decomposition."""
    batch, n, _ = _matrices(call.inputs[0])
    return linear_algebra.cholesky(batch, n)


@register_op_costs("Lu", "MatrixDeterminant", "LogMatrixDeterminant")
def lu(call: OpCall) -> Cost:
    """Return the cost of a decomposition; a determinant is the product of its diagonal."""
    return linear_algebra.lu(*_matrices(call.inputs[0]))


@register_op_cost("MatrixInverse")
def inverse(call: OpCall) -> Cost:
    """Return the cost of an inverse."""
    batch, n, _ = _matrices(call.inputs[0])
    return linear_algebra.inverse(batch, n)


@register_op_cost("MatrixSolve")
def solve(call: OpCall) -> Cost:
    """Return the cost of the decomposition and the solutions."""
    return linear_algebra.solve(*_matrices(call.inputs[1]))


@register_op_cost("MatrixTriangularSolve")
def triangular_solve(call: OpCall) -> Cost:
    """Return the cost of the solutions."""
    return linear_algebra.solve_triangular(*_matrices(call.outputs[0]))


@register_op_cost("BandedTriangularSolve")
def banded_triangular_solve(call: OpCall) -> Cost:
    """Return the cost of the solutions; the matrix is given by its diagonals."""
    batch, n, right_sides = _matrices(call.outputs[0])
    return linear_algebra.solve_banded_triangular(batch, n, call.inputs[0][-2], right_sides)


@register_op_cost("TridiagonalSolve")
def tridiagonal_solve(call: OpCall) -> Cost:
    """Return the cost of the elimination and the solutions."""
    return linear_algebra.solve_tridiagonal(*_matrices(call.outputs[0]))


@register_op_cost("MatrixSolveLs")
def least_squares(call: OpCall) -> Cost:
    """Return the cost of the solutions: by normal equations if fast, else by an orthogonal decomposition."""
    formula = linear_algebra.normal_equations if call.attribute("fast") else linear_algebra.least_squares
    return formula(*_matrices(call.inputs[0]), call.outputs[0][-1])


@register_op_cost("Qr")
def qr(call: OpCall) -> Cost:
    """Return the cost of R, and of a thin or full Q."""
    mode = "complete" if call.attribute("full_matrices") else "reduced"
    return linear_algebra.qr(*_matrices(call.inputs[0]), mode=mode)


@register_op_cost("Svd")
def svd(call: OpCall) -> Cost:
    """Return the cost of the values, and of thin or full vectors."""
    vectors, full = bool(call.attribute("compute_uv")), bool(call.attribute("full_matrices"))
    return linear_algebra.singular_values(*_matrices(call.inputs[0]), vectors=vectors, full=full)


@register_op_cost("SelfAdjointEigV2")
def symmetric_eigen(call: OpCall) -> Cost:
    """Return the cost of the values, and of the vectors."""
    batch, n, _ = _matrices(call.inputs[0])
    return linear_algebra.symmetric_eigenvalues(batch, n, bool(call.attribute("compute_v")))


@register_op_cost("Eig")
def eigen(call: OpCall) -> Cost:
    """Return the cost of the values, and of the vectors."""
    batch, n, _ = _matrices(call.inputs[0])
    return linear_algebra.eigenvalues(batch, n, bool(call.attribute("compute_v")))
