"""Cost formulas by family of operators: one operator, one pure function of one call."""

from __future__ import annotations

from .registry import (
    OpCall,
    Shapes,
    UnknownShapeError,
    layer_cost,
    op_cost,
    register_layer_cost,
    register_op_cost,
    scoped_costs,
)

__all__ = [
    "OpCall",
    "Shapes",
    "UnknownShapeError",
    "layer_cost",
    "op_cost",
    "register_layer_cost",
    "register_op_cost",
    "scoped_costs",
]
