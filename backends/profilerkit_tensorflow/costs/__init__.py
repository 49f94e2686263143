"""Adapters by family of operators: which operator's call goes to which formula of `profilerkit.costs`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from .registry import (
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
FAMILIES = tuple(
    import_module(f"{__name__}.{module.name}")
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name)
    if module.name != "registry"
)

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
