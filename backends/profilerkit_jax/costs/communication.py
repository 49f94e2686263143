"""Collectives of several devices: what one device adds up; what is only sent costs nothing."""

from __future__ import annotations

from profilerkit.costs import reduction

from .registry import Cost, PrimitiveCall, UnknownCostError, register_free, register_op_costs

#: Primitives come whole, and as a start with an end apart.
_FORMS = ("", "_start")
_REDUCED = ("psum", "psum_invariant", "unreduced_psum", "pmax", "pmin", "unreduced_pmax", "unreduced_pmin")
_SCATTERED = ("reduce_scatter", "unreduced_reduce_scatter")

#: What is sent, and the ends of what was started.
_SENT = """
    all_gather all_gather_done all_gather_invariant all_gather_reduced all_gather_reduced_start all_gather_start
    all_to_all all_to_all_done all_to_all_start axis_index pbroadcast pbroadcast_done pbroadcast_dynamic
    pbroadcast_start ppermute ppermute_done ppermute_start precv preduced psend psum_done pvary ragged_all_to_all
    reduce_scatter_done reduced_vary_cast reduced_vary_cast_p vary_unreduced_cast vary_unreduced_cast_p
"""
register_free(*_SENT.split())


@register_op_costs(*(f"{name}{form}" for name in _REDUCED for form in _FORMS))
def all_reduce(call: PrimitiveCall) -> Cost:
    """Around a ring, one addition (or comparison) for each element; of one device there is nothing to add."""
    if _devices(call) == 1:
        return Cost(0, 0)
    floats = [shape for shape, dtype in zip(call.inputs, call.input_dtypes, strict=True) if "float" in dtype]
    return reduction.all_reduce(sum(shape.numel for shape in floats))


@register_op_costs(*(f"{name}{form}" for name in _SCATTERED for form in _FORMS))
def reduce_scatter(call: PrimitiveCall) -> Cost:
    """Each device keeps its share of the sums, of as many summands as there are devices."""
    devices = call.params.get("axis_size") or _devices(call) or 2
    return reduction.all_reduce(call.outputs[0].numel, int(devices))


def _devices(call: PrimitiveCall) -> int | None:
    """Return how many devices take part; None where the axis is not known."""
    if not {"axes", "axis_name"} & call.params.keys():
        raise UnknownCostError
    axes = call.params.get("axes", call.params.get("axis_name", ()))
    names = axes if isinstance(axes, (tuple, list)) else (axes,)
    product = 1
    for name in names:
        if name not in call.axis_sizes:
            return None
        product *= call.axis_sizes[name]
    return product
