"""Reductions, running ones too, and scattering: an operation for each input element."""

from __future__ import annotations

from profilerkit.costs import elementwise, reduction

from .registry import OPERATORS, Cost, PrimitiveCall

OPERATORS.register_reduction(reduction.total, "reduce_sum", "cumsum")
OPERATORS.register_reduction(reduction.extreme, "reduce_max", "reduce_min", "cummax", "cummin")
OPERATORS.register_reduction(reduction.multiply, "reduce_prod", "cumprod")
OPERATORS.register_reduction(reduction.log_sum_exp, "cumlogsumexp")


@OPERATORS.register_all("scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
def scatter(call: PrimitiveCall) -> Cost:
    """An addition, product or comparison for each of the updates."""
    return reduction.scatter(call.inputs[2].numel)


@OPERATORS.register_all("addupdate", "accum_grad_in_ref")
def add_to_reference(call: PrimitiveCall) -> Cost:
    """An addition for each element that is added to a reference."""
    return elementwise.add_summands(2, call.inputs[1].numel)
