"""Adapters by family of operators: which node's shapes and attributes go to which formula of `profilerkit.costs`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from .registry import NodeCall, UnknownCostError, UnknownShapeError, is_known, node_cost, register_op_cost, scoped_costs

#: The families of operators, each a module of adapters: found, not listed.
FAMILIES = tuple(
    import_module(f"{__name__}.{module.name}")
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name)
    if module.name != "registry"
)

__all__ = [
    "FAMILIES",
    "NodeCall",
    "UnknownCostError",
    "UnknownShapeError",
    "is_known",
    "node_cost",
    "register_op_cost",
    "scoped_costs",
]
