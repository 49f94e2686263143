"""The layers of a report or comparison as CSV: one row for each layer, with values in base units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .csv import write_csv

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["render"]


def render(result: Report | Comparison) -> str:
    """Return every column of `Report.layerwise`, behind the ``model`` that a layer belongs to."""
    rows = [{"model": report.name, **row} for report in result.reports for row in report.layerwise]
    columns = dict.fromkeys(name for row in rows for name in row)
    return write_csv(columns or ["model"], rows)
