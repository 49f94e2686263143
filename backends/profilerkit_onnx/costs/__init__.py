"""Adapters by family of operators: they pass shapes and attributes of nodes to a formula of `profilerkit.costs`."""

from __future__ import annotations

from profilerkit.process.modules import import_modules

from .registry import COSTS, NodeCall, Shapes, is_known, register_op_cost, scoped_costs

import_modules(__name__, __path__, but=("registry",))  # each registers its formulas
COSTS.mark_as_shipped()

__all__ = ["NodeCall", "Shapes", "is_known", "register_op_cost", "scoped_costs"]
