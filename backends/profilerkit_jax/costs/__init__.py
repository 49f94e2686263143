"""Adapters by family of primitives: they pass the shapes of each equation to a formula of `profilerkit.costs`."""

from __future__ import annotations

from profilerkit.process.modules import import_modules

from .registry import COSTS, UNCOUNTED, PrimitiveCall, is_known, register_op_cost, scoped_costs

#: The families of primitives, each a module of adapters: found, not listed.
FAMILIES = tuple(import_modules(__name__, __path__, but=("registry",)).values())
COSTS.mark_as_shipped()

__all__ = ["FAMILIES", "UNCOUNTED", "PrimitiveCall", "is_known", "register_op_cost", "scoped_costs"]
