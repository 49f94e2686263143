"""The cost of each operator: adapters that pass shapes and options to a formula of `profilerkit.costs`."""

from __future__ import annotations

from . import operators, recurrent
from .registry import COSTS, OPERATORS, LiteRTCall, price, register_op_cost, scoped_costs

COSTS.mark_as_shipped()

__all__ = ["COSTS", "OPERATORS", "LiteRTCall", "operators", "price", "recurrent", "register_op_cost", "scoped_costs"]
