"""Reductions and losses; scattering: an operation for each update that does not replace."""

from __future__ import annotations

from profilerkit.backend_kit.operator_costs import PerElements
from profilerkit.costs import activation, elementwise, loss, reduction

from .registry import OPERATORS, Cost, NodeCall, register_op_cost


def _absolute_sum(elements: int) -> Cost:
    return elementwise.elementary("ABSOLUTE")(elements).plus(reduction.total(elements))


#: Reductions, with the functions of each element that are left of one over no dimension at all.
_REDUCTIONS: dict[str, tuple[PerElements, str]] = {
    **dict.fromkeys(("ReduceSum", "ReduceMean"), (reduction.total, "")),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), (reduction.extreme, "")),
    "ReduceProd": (reduction.multiply, ""),
    "ReduceL1": (_absolute_sum, "ABSOLUTE"),
    "ReduceL2": (reduction.norm, "POWER SQRT"),
    "ReduceSumSquare": (reduction.norm, "POWER"),
    "ReduceLogSum": (reduction.total, "LOG"),
    "ReduceLogSumExp": (reduction.log_sum_exp, "EXP LOG"),
}


@OPERATORS.register_all(*_REDUCTIONS)
def reduce(call: NodeCall) -> Cost:
    """A reduction of each input element, which an attribute may make one over no dimension at all."""
    formula, functions = _REDUCTIONS[call.type]
    elements, cost = call.inputs[0].numel, Cost(0, 0)
    if not call.attribute("noop_with_empty_axes", 0) or (call.has_input(1) and call.inputs[1].numel):
        return formula(elements)
    for name in functions.split():
        cost = cost.plus(elementwise.elementary(name)(elements))
    return cost


OPERATORS.register_reduction(reduction.total, "CumSum")
OPERATORS.register_reduction(reduction.multiply, "CumProd")


@OPERATORS.register_all("ScatterElements", "ScatterND")
def scatter(call: NodeCall) -> Cost:
    """An addition, product or comparison for each of the updates, unless they replace."""
    replaces = call.attribute("reduction", "none") == "none"
    return reduction.scatter(call.inputs[2].numel, accumulates=not replaces)


@register_op_cost("Col2Im")
def columns_to_image(call: NodeCall) -> Cost:
    """Overlapping elements add up: an addition for each input element."""
    return reduction.scatter(call.inputs[0].numel)


@register_op_cost("NegativeLogLikelihoodLoss")
def negative_log_likelihood(call: NodeCall) -> Cost:
    """One addition for each target."""
    return loss.negative_log_likelihood(call.inputs[1].numel)


@register_op_cost("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(call: NodeCall) -> Cost:
    """The logarithm of the softmax, and one addition for each target."""
    likelihood = loss.negative_log_likelihood(call.inputs[1].numel)
    return activation.softmax(call.inputs[0].numel, log=True).plus(likelihood)
