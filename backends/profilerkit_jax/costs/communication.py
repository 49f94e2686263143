"""Collectives of several devices: the additions of one device; sent data costs nothing."""

from __future__ import annotations

from math import prod

from profilerkit.costs import reduction
from profilerkit.costs.numbers import is_float

from .registry import OPERATORS, Cost, PrimitiveCall, UnknownCostError

#: An exchange is one primitive, or a start and an end ("psum_start", "psum_done"): the start has its additions.
_FORMS = ("", "_start")


def _list_forms(names: str) -> tuple[str, ...]:
    return tuple(f"{name}{form}" for name in names.split() for form in _FORMS)


_REDUCED = _list_forms("psum psum_invariant unreduced_psum pmax pmin unreduced_pmax unreduced_pmin")
_SCATTERED = _list_forms("reduce_scatter unreduced_reduce_scatter")
_SENT = _list_forms(
    "all_gather all_gather_invariant all_gather_reduced all_to_all ragged_all_to_all pbroadcast ppermute precv psend"
)
#: The ends of exchanges, and primitives that exchange nothing by themselves.
_NO_EXCHANGES = """
    all_gather_done all_to_all_done pbroadcast_done ppermute_done psum_done reduce_scatter_done
    axis_index pbroadcast_dynamic preduced pvary reduced_vary_cast reduced_vary_cast_p vary_unreduced_cast
    vary_unreduced_cast_p
"""
OPERATORS.register_free(*_SENT, *_NO_EXCHANGES.split())


@OPERATORS.register_all(*_REDUCED)
def all_reduce(call: PrimitiveCall) -> Cost:
    """Around a ring, one addition (or comparison) for each element; of one device there is nothing to add."""
    if _count_devices(call) == 1:
        return Cost(0, 0)
    # One primitive may reduce arrays of several dtypes; operations on integers are no FLOPs.
    added = [shape for shape, dtype in zip(call.inputs, call.input_dtypes, strict=True) if is_float(dtype)]
    return reduction.all_reduce(sum(shape.numel for shape in added))


@OPERATORS.register_all(*_SCATTERED)
def reduce_scatter(call: PrimitiveCall) -> Cost:
    """Each device keeps its share of the sums, of as many summands as there are devices."""
    devices = call.params.get("axis_size") or _count_devices(call) or 2  # the fewest that have anything to add
    return reduction.all_reduce(call.outputs[0].numel, int(devices))


def is_communication(primitive: str) -> bool:
    """Return whether a primitive is an exchange of several devices by itself."""
    return primitive in (*_REDUCED, *_SCATTERED, *_SENT)


def _count_devices(call: PrimitiveCall) -> int | None:
    """Return how many devices take part; None if an axis has no known size.

    Raises `UnknownCostError` if this release of JAX names the axes by another parameter.
    """
    axes = call.params.get("axes", call.params.get("axis_name"))
    if axes is None:
        raise UnknownCostError
    names = axes if isinstance(axes, (tuple, list)) else (axes,)
    if any(name not in call.axis_sizes for name in names):
        return None
    return prod(call.axis_sizes[name] for name in names)
