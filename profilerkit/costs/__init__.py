"""The convention: what every operator costs, once for all backends.

`convention` has the elementary functions of real numbers, `complex_numbers` those of complex ones, and `numbers` says
which of them a formula reads. Every other module here is a family of formulas over plain numbers, which a
backend's adapters call with what they read off an operator. `keras_layers` has Keras' layers, `registry` the class that
a backend keeps its formulas in.
"""

from __future__ import annotations

from types import ModuleType

from ..process.modules import import_modules
from .cost import UNCOUNTED, Cost, Formula, PerElement, Shape, apply_formula, evaluate_formula
from .numbers import Numbers, constants
from .registry import CallForm, CostRegistry

__all__ = [
    "UNCOUNTED",
    "CallForm",
    "Cost",
    "CostRegistry",
    "Formula",
    "Numbers",
    "PerElement",
    "Shape",
    "apply_formula",
    "constants",
    "evaluate_formula",
    "families",
]

#: The modules here that are no families of formulas.
_NO_FAMILIES = ("convention", "complex_numbers", "cost", "numbers", "registry")


def families() -> dict[str, ModuleType]:
    """Return the modules of formulas, by name: every module of this package but its tools."""
    return import_modules(__name__, __path__, but=_NO_FAMILIES)
