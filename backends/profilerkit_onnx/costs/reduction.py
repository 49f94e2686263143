"""Reductions: an operation for each input element."""

from __future__ import annotations

from profilerkit.costs import Cost, elementwise, reduction

from .registry import OPERATORS


def _absolute_sum(elements: int) -> Cost:
    return elementwise.elementary("ABSOLUTE")(elements).plus(reduction.total(elements))


OPERATORS.register_reduction(reduction.total, "ReduceSum", "ReduceMean", "CumSum")
OPERATORS.register_reduction(reduction.extreme, "ReduceMax", "ReduceMin")
OPERATORS.register_reduction(reduction.multiply, "ReduceProd", "CumProd")
OPERATORS.register_reduction(reduction.norm, "ReduceL2", "ReduceSumSquare")
OPERATORS.register_reduction(_absolute_sum, "ReduceL1")
OPERATORS.register_reduction(reduction.log_sum_exp, "ReduceLogSumExp")
OPERATORS.register_reduction(reduction.total, "ReduceLogSum")
