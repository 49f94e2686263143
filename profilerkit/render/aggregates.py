"""The tables of DeepSpeed and torch.profiler: the types of layers at each depth, and the operators summed by name."""

from __future__ import annotations

from collections.abc import Iterator

from ..foreign_text import visible
from ..results.comparison import Comparison
from ..results.report import Report
from ..times.operator_totals import operator_totals
from ..trace.columns import WORK
from ..trace.table import Table
from .console import grid_text
from .grids import list_records
from .notes import explain_incomplete
from .table_grids import ROWS, table_grid

__all__ = ["by_depth", "by_operator"]

#: Types that are shown of each depth unless another number is requested, as DeepSpeed has it.
_TYPES = 1


def by_depth(result: Report | Comparison, depth: int | None = None, top: int | None = None) -> str:
    """Return the types of layers that cost most at each depth, as DeepSpeed's profiler prints them.

    Args:
        result: A report or a comparison.
        depth: The deepest layers to look at; None and -1 for the innermost ones.
        top: How many types to show for each depth and column, 1 unless given.
    """
    return "\n\n".join(_draw_depths(report, depth, top or _TYPES) for report in result.reports) + "\n"


def _draw_depths(report: Report, depth: int | None, top: int) -> str:
    if not report.layerwise:
        return visible(f"{report.name}: no layers, the model was not traced")
    return grid_text(table_grid(f"{report.name}, by depth", report.layerwise.by_depth(top, depth), None))


def by_operator(result: Report | Comparison, top: int | None = None) -> str:
    """Return the operators summed by name, the slowest first, like the averages of torch.profiler.

    The operators are from the metric ``operator_table``; in a report without it, from the trace, with counts alone.
    Why these counts are bounds is said below them: which of several branches runs is not known of a single operator.
    """
    return "\n\n".join(text for report in result.reports for text in _draw_operators(report, top or ROWS)) + "\n"


def _draw_operators(report: Report, top: int) -> Iterator[str]:
    timed = [record.value for record in list_records(report, Table) if "operator" in record.value.columns]
    tables = timed or ([report.operators] if report.operators else [])
    if not tables:
        yield visible(f"{report.name}: no operators, the model was not traced")
    for table in tables:
        yield grid_text(table_grid(f"{report.name}, by operator", operator_totals(table), top))
    counts = [report.statuses[name] for name in WORK if name in report.statuses]
    yield from (visible(f"{report.name}: {note}") for note in explain_incomplete(counts))
