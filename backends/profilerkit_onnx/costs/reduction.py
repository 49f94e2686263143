"""Reductions: an operation for each input element."""

from __future__ import annotations

from profilerkit.costs import Cost, elementwise, reduction

from .registry import register_reduction


def _absolute_sum(elements: int) -> Cost:
    return elementwise.elementary("ABSOLUTE")(elements).plus(reduction.total(elements))


register_reduction(reduction.total, "ReduceSum", "ReduceMean", "CumSum")
register_reduction(reduction.extreme, "ReduceMax", "ReduceMin")
register_reduction(reduction.multiply, "ReduceProd", "CumProd")
register_reduction(reduction.norm, "ReduceL2", "ReduceSumSquare")
register_reduction(_absolute_sum, "ReduceL1")
register_reduction(reduction.log_sum_exp, "ReduceLogSumExp")
register_reduction(reduction.total, "ReduceLogSum")
