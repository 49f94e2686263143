"""Budgets: limits on the cost of a model, checked against a report; a failure names the layers responsible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from .checking import check
    from .findings import Finding, Verdict
    from .limits import Budget, Limit

__all__ = ["Budget", "Finding", "Limit", "Verdict", "check"]

# Lazy, because pytest imports the package for its plugin, also in projects that never use it.
_MODULES = module_of_each({".checking": "check", ".findings": "Finding Verdict", ".limits": "Budget Limit"})

install_lazy_names(__name__, _MODULES)
