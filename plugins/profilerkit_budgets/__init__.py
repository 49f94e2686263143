"""Budgets: limits on what a model may cost, checked against a report; a failure names the layers responsible."""

from __future__ import annotations

from .checking import Finding, Verdict, check
from .limits import Budget, Limit

__all__ = ["Budget", "Finding", "Limit", "Verdict", "check"]
