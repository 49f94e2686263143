"""Adapters by family of operators: they pass shapes and attributes of nodes to a formula of `profilerkit.costs`."""

from __future__ import annotations

from profilerkit.process.modules import import_modules

from .registry import (
    COSTS,
    NodeCall,
    Shapes,
    is_known,
    register_op_cost,
    scoped_costs,
)

#: The families of operators, each a module of adapters: found, not listed.
FAMILIES = tuple(import_modules(__name__, __path__, but=("registry",)).values())
COSTS.mark_as_shipped()

__all__ = [
    "FAMILIES",
    "NodeCall",
    "Shapes",
    "is_known",
    "register_op_cost",
    "scoped_costs",
]
