"""Adapters by family of operators: they pass the call of each operator to a formula of `profilerkit.costs`."""

from __future__ import annotations

from profilerkit.process.modules import import_modules

from .registry import (
    COSTS,
    OpCall,
    Shapes,
    UnknownCostError,
    UnknownShapeError,
    layer_cost,
    op_cost,
    register_layer_cost,
    register_op_cost,
    scoped_costs,
)

#: The families of operators, each a module of adapters.
FAMILIES = tuple(import_modules(__name__, __path__, but=("registry",)).values())
COSTS.mark_as_shipped()

__all__ = [
    "FAMILIES",
    "OpCall",
    "Shapes",
    "UnknownCostError",
    "UnknownShapeError",
    "layer_cost",
    "op_cost",
    "register_layer_cost",
    "register_op_cost",
    "scoped_costs",
]
