"""Budgets: what a model may cost, checked against a report, and the layers responsible where it costs more."""

from __future__ import annotations

from .checking import Finding, Verdict, check
from .limits import Budget, Limit

__all__ = ["Budget", "Finding", "Limit", "Verdict", "check"]
