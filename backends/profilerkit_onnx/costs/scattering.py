"""Scattering: an operation for each element that is brought in, none where it replaces what is there."""

from __future__ import annotations

from profilerkit.costs import reduction

from .registry import OPERATORS, Cost, NodeCall

OPERATORS.register_free("Scatter")


@OPERATORS.register_all("ScatterElements", "ScatterND")
def scatter(call: NodeCall) -> Cost:
    """An addition, product or comparison for each of the updates, unless they replace."""
    replaces = call.attribute("reduction", "none") == "none"
    return reduction.scatter(call.inputs[2].numel, accumulates=not replaces)
