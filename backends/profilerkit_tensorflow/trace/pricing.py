"""What executed operators cost, by the formula of the operator or by that of the layer that it belongs to."""

from __future__ import annotations

from profilerkit.trace.layer_operators import name_layer_operator

from ..costs import OpCall, UnknownShapeError, op_cost
from .ownership import LayerCost
from .values import Executed

__all__ = ["UNKNOWN_SHAPE", "make_layer_operator", "price"]

#: How the names of uncounted operators end whose formula needs a size that the graph does not know.
UNKNOWN_SHAPE = " of unknown shape"


def price(done: Executed, call: OpCall) -> None:
    """Write its cost to an executed operator, or that it is missing."""
    try:
        cost = op_cost(call)
    except UnknownShapeError:
        done.missing = f"{call.type}{UNKNOWN_SHAPE}"
        return
    if cost is None:
        done.missing = call.type
    else:
        done.macs, done.flops = cost.macs * done.times, cost.flops * done.times


def make_layer_operator(layer: LayerCost, times: int) -> Executed:
    """Return the operator that stands for a whole call of a layer among the others."""
    name, (macs, flops) = name_layer_operator("layer", layer.call.layer_type), layer.cost.times(times)
    return Executed(name, name, (), (), times, layer.call, macs, flops)
