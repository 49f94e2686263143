"""Every formula of `profilerkit.costs`, called with small numbers: a file for each family, found by its name.

A file that is called as a family of formulas is, and has a function ``cases``, holds the cases of this family.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from .case import CONSTANTS, Case, agrees, case, distinct_constants

__all__ = ["CASES", "CONSTANTS", "Case", "agrees", "case", "distinct_constants"]

CASES: dict[str, list[Case]] = {
    module.name: list(import_module(f"{__name__}.{module.name}").cases())
    for module in pkgutil.iter_modules(__path__)
    if module.name != "case"
}
