"""The convention: what every operator costs, once for all backends.

`convention` has the elementary functions of real numbers, `complex_numbers` those of complex ones, and `numbers` says
which of them a formula reads. Every other module here is a family of formulas over plain numbers, which a
backend's adapters call with what they read off an operator. `keras_layers` has Keras' layers, `registry` the class that
a backend keeps its formulas in.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

from .cost import UNCOUNTED, Cost, Formula, PerElement, Shape, counted, evaluated
from .numbers import Numbers, constants
from .registry import CostRegistry

__all__ = [
    "UNCOUNTED",
    "Cost",
    "CostRegistry",
    "Formula",
    "Numbers",
    "PerElement",
    "Shape",
    "constants",
    "counted",
    "evaluated",
    "families",
]

#: The modules here that are no families of formulas.
_NO_FAMILIES = ("convention", "complex_numbers", "cost", "numbers", "registry")


def families() -> dict[str, ModuleType]:
    """Return the modules of formulas, by name: every module of this package that is none of its tools."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.name not in _NO_FAMILIES]
    return {name: import_module(f"{__name__}.{name}") for name in sorted(names)}
