"""Decompositions and solutions: the formulas of the primitives."""

from __future__ import annotations

from profilerkit.costs import linear_algebra

from .registry import OPERATORS, Cost, PrimitiveCall, Shape, register_op_cost, register_uncounted

register_uncounted("there is no customary count for it", "cholesky_update")


def _batch(shape: Shape) -> int:
    return Shape(shape[:-2]).numel


@register_op_cost("cholesky")
def cholesky(call: PrimitiveCall) -> Cost:
    """The decomposition of each matrix of a batch."""
    x = call.inputs[0]
    return linear_algebra.cholesky(_batch(x), x[-1])


@register_op_cost("lu")
def lu(call: PrimitiveCall) -> Cost:
    """The decomposition into triangles."""
    x = call.inputs[0]
    return linear_algebra.lu(_batch(x), x[-2], x[-1])


@register_op_cost("qr")
def qr(call: PrimitiveCall) -> Cost:
    """R, and Q of the shape that is wanted."""
    x = call.inputs[0]
    mode = "complete" if call.params["full_matrices"] else "reduced"
    return linear_algebra.qr(_batch(x), x[-2], x[-1], mode)


@OPERATORS.register_all("geqrf", "geqp3")
def householder(call: PrimitiveCall) -> Cost:
    """R, and Householder's reflections; the choice of columns costs terms of lower order."""
    x = call.inputs[0]
    return linear_algebra.householder(_batch(x), x[-2], x[-1])


@register_op_cost("householder_product")
def householder_product(call: PrimitiveCall) -> Cost:
    """The columns of Q, of the reflections."""
    out, taus = call.outputs[0], call.inputs[1]
    return linear_algebra.householder_product(_batch(out), out[-2], out[-1], taus[-1])


@register_op_cost("ormqr")
def apply_reflections(call: PrimitiveCall) -> Cost:
    """The product of Q, as reflections, with a matrix on its right or left."""
    taus, c = call.inputs[1], call.inputs[2]
    rows, columns = (c[-2], c[-1]) if call.params["left"] else (c[-1], c[-2])
    return linear_algebra.apply_reflections(_batch(c), rows, columns, taus[-1])


@register_op_cost("svd")
def singular_values(call: PrimitiveCall) -> Cost:
    """The values alone, or with U and V."""
    x = call.inputs[0]
    vectors = bool(call.params["compute_uv"])
    full = vectors and bool(call.params["full_matrices"]) and x[-1] != x[-2]
    return linear_algebra.singular_values(_batch(x), x[-2], x[-1], vectors, full)


@register_op_cost("eigh")
def symmetric_eigenvalues(call: PrimitiveCall) -> Cost:
    """Values and vectors, which JAX always makes both."""
    x = call.inputs[0]
    return linear_algebra.symmetric_eigenvalues(_batch(x), x[-1])


@register_op_cost("eig")
def eigenvalues(call: PrimitiveCall) -> Cost:
    """The values alone, or with the vectors of either side."""
    x = call.inputs[0]
    vectors = any(call.params[f"compute_{side}_eigenvectors"] for side in ("left", "right"))
    return linear_algebra.eigenvalues(_batch(x), x[-1], vectors)


@register_op_cost("schur")
def schur(call: PrimitiveCall) -> Cost:
    """Francis' steps, as for eigenvalues."""
    x = call.inputs[0]
    return linear_algebra.eigenvalues(_batch(x), x[-1], bool(call.params["compute_schur_vectors"]))


@register_op_cost("hessenberg")
def hessenberg(call: PrimitiveCall) -> Cost:
    """The matrix, and the reflections."""
    x = call.inputs[0]
    return linear_algebra.hessenberg(_batch(x), x[-1])


@register_op_cost("tridiagonal")
def tridiagonal(call: PrimitiveCall) -> Cost:
    """The diagonals, and the reflections."""
    x = call.inputs[0]
    return linear_algebra.symmetric_eigenvalues(_batch(x), x[-1], vectors=False)


@register_op_cost("triangular_solve")
def solve_triangular(call: PrimitiveCall) -> Cost:
    """Each column, or row, of the right-hand side is one solution."""
    a, b = call.inputs[0], call.inputs[1]
    return linear_algebra.solve_triangular(_batch(b), a[-1], b[-1] if call.params["left_side"] else b[-2])


@register_op_cost("tridiagonal_solve")
def solve_tridiagonal(call: PrimitiveCall) -> Cost:
    """One elimination for each right-hand side."""
    b = call.inputs[3]
    return linear_algebra.solve_tridiagonal(_batch(b), b[-2], b[-1])
