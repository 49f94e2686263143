"""Reductions: an operation for each input element. Scattering: one for each that is brought in and does not replace."""

from __future__ import annotations

from profilerkit.costs import elementwise, reduction

from .registry import OPERATORS, Cost, NodeCall


def _absolute_sum(elements: int) -> Cost:
    return elementwise.elementary("ABSOLUTE")(elements).plus(reduction.total(elements))


OPERATORS.register_reduction(reduction.total, "ReduceSum", "ReduceMean", "CumSum")
OPERATORS.register_reduction(reduction.extreme, "ReduceMax", "ReduceMin")
OPERATORS.register_reduction(reduction.multiply, "ReduceProd", "CumProd")
OPERATORS.register_reduction(reduction.norm, "ReduceL2", "ReduceSumSquare")
OPERATORS.register_reduction(_absolute_sum, "ReduceL1")
OPERATORS.register_reduction(reduction.log_sum_exp, "ReduceLogSumExp")
OPERATORS.register_reduction(reduction.total, "ReduceLogSum")


OPERATORS.register_free("Scatter")


@OPERATORS.register_all("ScatterElements", "ScatterND")
def scatter(call: NodeCall) -> Cost:
    """An addition, product or comparison for each of the updates, unless they replace."""
    replaces = call.attribute("reduction", "none") == "none"
    return reduction.scatter(call.inputs[2].numel, accumulates=not replaces)
