"""A report or comparison as JSON, as `Report.save` writes it: values in base units, measurements with their samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["render"]


def render(result: Report | Comparison) -> str:
    """Return all that a report or comparison holds; `profilerkit.load` reads it."""
    from ..results.saving import to_json

    return to_json(result)
