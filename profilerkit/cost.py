"""The arguments and results of cost formulas; from `profilerkit.costs`, and imported from here too."""

from __future__ import annotations

from .costs.cost import Cost, Formula, Shape, evaluate_formula

__all__ = ["Cost", "Formula", "Shape", "evaluate_formula"]
