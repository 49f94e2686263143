"""The convention: the cost of every operator, once for all backends.

`convention` has the elementary functions of real numbers, `complex_numbers` has the elementary functions of complex
numbers, and `numbers` decides which of the two a formula reads. `keras_layers` has the layers of Keras, `registry` the
class in which a backend keeps its formulas. Every other module is a family of formulas over plain numbers; the adapters
of a backend read these numbers off an operator.
"""

from __future__ import annotations

from types import ModuleType

from ..process.modules import import_modules
from .cost import UNCOUNTED, Cost, Formula, PerElement, Shape
from .evaluation import CallForm, apply_formula, evaluate_formula
from .numbers import Numbers, constants
from .registry import CostRegistry

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
_NO_FAMILIES = ("convention", "complex_numbers", "cost", "evaluation", "numbers", "registry")


def families() -> dict[str, ModuleType]:
    """Return the modules of formulas, by name: every module of this package but its tools."""
    return import_modules(__name__, __path__, but=_NO_FAMILIES)
