"""Adapters by family of operators: which operator's arguments go to which formula of `profilerkit.costs`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from .classification import Kind, classify, has_nested_kernel
from .pricing import op_cost
from .registry import (
    UNCOUNTED,
    Cost,
    Formula,
    Shape,
    module_cost,
    override,
    register_module_cost,
    register_op_cost,
    scoped_costs,
)
from .shapes import SparseShape, require_plain, shapes_of

#: The modules here that are no families of operators.
_NO_FAMILIES = ("classification", "pricing", "registry", "shapes")

#: The families of operators, each a module of adapters: found, not listed.
FAMILIES = tuple(
    import_module(f"{__name__}.{module.name}")
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name)
    if module.name not in _NO_FAMILIES
)

__all__ = [
    "FAMILIES",
    "UNCOUNTED",
    "Cost",
    "Formula",
    "Kind",
    "Shape",
    "SparseShape",
    "classify",
    "has_nested_kernel",
    "module_cost",
    "op_cost",
    "override",
    "register_module_cost",
    "register_op_cost",
    "require_plain",
    "scoped_costs",
    "shapes_of",
]
