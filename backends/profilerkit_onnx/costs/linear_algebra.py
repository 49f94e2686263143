"""Decompositions: which operator goes to which formula."""

from __future__ import annotations

from profilerkit.costs import linear_algebra

from .registry import Cost, NodeCall, Shape, register_op_cost


@register_op_cost("Det")
def determinant(call: NodeCall) -> Cost:
    """The decomposition into triangles of each matrix of a batch."""
    x = call.inputs[0]
    return linear_algebra.lu(Shape(x[:-2]).numel, x[-2], x[-1])
