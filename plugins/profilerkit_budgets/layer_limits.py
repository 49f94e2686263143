"""Limits of layers: one finding for each layer whose path a pattern matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from profilerkit.errors import BudgetError, by_likeness
from profilerkit.piping.outcome import Completeness
from profilerkit.piping.quantity import format_number
from profilerkit.render.values import Column
from profilerkit.results.report import Report
from profilerkit.times.ratio import Ratio
from profilerkit.trace.alignment import align
from profilerkit.trace.bounds import Bounds

from .findings import Finding, Verdict, compute_excess, divide_ends, explain_uncertainty, judge
from .limits import Limit
from .responsible import LAYER_COLUMNS, has_column

__all__ = ["check_layers"]


def check_layers(report: Report, limit: Limit, baseline: Report | None) -> Iterator[Finding]:
    """Yield a finding for each layer that the limit's pattern matches.

    Raises `BudgetError` for a metric that layers do not have, another unit, a report without layers, and a pattern
    without a match.
    """
    column = LAYER_COLUMNS.get(limit.key)
    if column is None:
        raise BudgetError(f"{limit}: layers have limits of {', '.join(LAYER_COLUMNS)}, not of {limit.key}")
    if report.layers is None:
        raise BudgetError(f"{limit}: the report of {report.name} holds no layers")
    if not has_column(report, column):
        raise BudgetError(f"{limit}: the layers of {report.name} have no {column}; make the report again")
    rows = [row for row in report.layers if row["path"]]
    matching = [row for row in rows if fnmatchcase(row["path"], limit.pattern or "")]
    if not matching:
        nearest = ", ".join(by_likeness(limit.pattern or "", [row["path"] for row in rows])[:5])
        raise BudgetError(f"{limit}: no layer matches; the nearest paths are: {nearest}")
    before = _read_values_before(report, baseline, column) if limit.relative and baseline is not None else {}
    checked = _LayerLimit(limit, column, limit.bound(Column.of(column).unit), _list_uncounted(report, column), before)
    yield from map(checked.check, matching)


def _list_uncounted(report: Report, column: str) -> str:
    """Return what the counts of a column lack; an empty text if they are complete."""
    record = report.statuses.get(column)
    return ", ".join(record.missing) if record is not None and record.completeness is Completeness.PARTIAL else ""


def _read_values_before(report: Report, baseline: Report, column: str) -> dict[str, float]:
    """Return the values of the baseline's layers, by the paths that they have in the report."""
    rows = align(baseline, report, columns=(column,))
    pairs = {row["other_path"]: row[column] for row in rows}
    return {path: value for path, value in pairs.items() if path is not None and value is not None}


@dataclass(frozen=True)
class _LayerLimit:
    """A limit of layers.

    Args:
        limit: The limit.
        column: The column of the layer table that it bounds.
        bound: The number that it allows, in base units, or as a ratio.
        uncounted: What the counts of the column lack.
        before: The values of the baseline, by the path of the layer; empty for an absolute limit.
    """

    limit: Limit
    column: str
    bound: float
    uncounted: str
    before: Mapping[str, float]

    def check(self, row: Mapping[str, Any]) -> Finding:
        """Return the finding of a layer."""
        path, counted = row["path"], row[self.column]
        if counted is None:
            return Finding(self.limit, path, Verdict.FAILED, f"its {self.column} are not counted")
        column = Column.of(self.column)
        text = column.show(counted)
        if not self.limit.relative:
            return self._judge(path, float(counted), self._read_ends(row), text)
        if path not in self.before:
            return Finding(self.limit, path, Verdict.FAILED, f"{text}, and the baseline has no such layer")
        before = self.before[path]
        ratio = Ratio.of(before, float(counted)).value if counted or before else 1.0  # nothing stays nothing
        ends = divide_ends(self._read_ends(row), before) if self.uncounted else Bounds(ratio, ratio)
        return self._judge(path, ratio, ends, f"{format_number(ratio)}x ({text} after {column.show(before)})")

    def _judge(self, path: str, value: float, ends: Bounds, text: str) -> Finding:
        """Return the finding of a value between two ends; ``text`` shows it without the sign of a bound."""
        verdict = judge(self.limit, self.bound, ends, value)
        sign = ends.sign(value)
        reason = explain_uncertainty(sign, self.uncounted) if verdict is Verdict.UNCERTAIN else ""
        return Finding(self.limit, path, verdict, f"{sign}{text}{reason}", excess=compute_excess(value, self.bound))

    def _read_ends(self, row: Mapping[str, Any]) -> Bounds:
        """Return the two ends of a layer's count: equal ones if all of it is counted."""
        name = self.column
        if f"{name}_low" in row:
            return Bounds(row[f"{name}_low"], row[f"{name}_high"])
        return Bounds(row[name], None if self.uncounted else row[name])
