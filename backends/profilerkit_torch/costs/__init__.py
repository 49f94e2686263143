"""Adapters by family of operators: they pass the arguments of each operator to a formula of `profilerkit.costs`."""

from __future__ import annotations

from profilerkit.process.modules import import_modules

from .pricing import Kind, are_as_shipped, classify, op_cost
from .registry import (
    COSTS,
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
from .shapes import SparseShape, is_plain, replace_by_shapes, require_plain

#: The modules here that are no families of operators.
_NO_FAMILIES = ("argument_names", "families", "pricing", "registry", "shapes")

#: The families of operators, each a module of adapters: found, not listed.
FAMILIES = tuple(import_modules(__name__, __path__, but=_NO_FAMILIES).values())
COSTS.mark_as_shipped()

__all__ = [
    "FAMILIES",
    "UNCOUNTED",
    "Cost",
    "Formula",
    "Kind",
    "Shape",
    "SparseShape",
    "are_as_shipped",
    "classify",
    "is_plain",
    "module_cost",
    "op_cost",
    "override",
    "register_module_cost",
    "register_op_cost",
    "replace_by_shapes",
    "require_plain",
    "scoped_costs",
]
