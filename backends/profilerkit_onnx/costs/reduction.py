"""Reductions: an operation for each input element. Scattering: one for each that is brought in and does not replace."""

from __future__ import annotations

from functools import partial

from profilerkit.backend_kit.operator_costs import PerElements
from profilerkit.costs import elementwise, reduction

from .registry import OPERATORS, Cost, NodeCall


def _absolute_sum(elements: int) -> Cost:
    return elementwise.elementary("ABSOLUTE")(elements).plus(reduction.total(elements))


def _reduce(formula: PerElements, call: NodeCall) -> Cost:
    """Return the cost of a reduction, which an attribute may make one over no dimension at all."""
    reduces_nothing = call.attribute("noop_with_empty_axes", 0) and not (call.has_input(1) and call.inputs[1].numel)
    return formula(0 if reduces_nothing else call.inputs[0].numel)


OPERATORS.register_all("ReduceSum", "ReduceMean")(partial(_reduce, reduction.total))
OPERATORS.register_all("ReduceMax", "ReduceMin")(partial(_reduce, reduction.extreme))
OPERATORS.register_all("ReduceProd")(partial(_reduce, reduction.multiply))
OPERATORS.register_reduction(reduction.total, "CumSum", "ReduceLogSum")
OPERATORS.register_reduction(reduction.multiply, "CumProd")
OPERATORS.register_reduction(reduction.norm, "ReduceL2", "ReduceSumSquare")
OPERATORS.register_reduction(_absolute_sum, "ReduceL1")
OPERATORS.register_reduction(reduction.log_sum_exp, "ReduceLogSumExp")
OPERATORS.register_free("Scatter")


@OPERATORS.register_all("ScatterElements", "ScatterND")
def scatter(call: NodeCall) -> Cost:
    """An addition, product or comparison for each of the updates, unless they replace."""
    replaces = call.attribute("reduction", "none") == "none"
    return reduction.scatter(call.inputs[2].numel, accumulates=not replaces)
