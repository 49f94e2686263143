"""What executed operators cost, by the formula of the operator or by that of the layer that it belongs to."""

from __future__ import annotations

from collections import Counter

from profilerkit.costs import Cost

from ..costs import OpCall, UnknownShapeError, op_cost
from .ownership import Owner
from .values import Executed

__all__ = ["UNKNOWN_SHAPE", "make_layer_operator", "price"]

#: How the names of uncounted operators end whose formula needs a size that the graph does not know.
UNKNOWN_SHAPE = " of unknown shape"


def price(done: Executed, call: OpCall, uncounted: Counter[str]) -> None:
    """Write its cost to an executed operator; one of unknown cost is added to ``uncounted``."""
    try:
        cost = op_cost(call)
        missing = "" if cost is not None else call.type
    except UnknownShapeError:
        cost, missing = None, f"{call.type}{UNKNOWN_SHAPE}"
    if cost is None:
        done.missing = missing
        uncounted[missing] += done.times
    else:
        done.macs, done.flops = cost.macs * done.times, cost.flops * done.times


def make_layer_operator(owner: Owner, cost: Cost, times: int) -> Executed:
    """Return the operator that stands for a whole call of a layer among the others."""
    name = f"layer::{owner.layer_type}"
    return Executed(name, name, (), (), times, owner, cost.macs * times, cost.flops * times)
