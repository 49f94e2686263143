"""Limits of layers: one finding for each layer whose path a pattern matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from profilerkit.errors import BudgetError, by_likeness
from profilerkit.piping.outcome import Completeness
from profilerkit.render.values import Column
from profilerkit.results.report import Report
from profilerkit.trace.alignment import align
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.columns import WORK, read_bounds
from profilerkit.trace.records import LayerTable

from .baselines import require_baseline
from .findings import Compared, Finding, Verdict, divide, judge
from .limits import Limit
from .responsible import LAYER_COLUMNS, has_column


class UnmatchedPatternError(BudgetError):
    """The model has no layer that the pattern of a limit matches."""


def check_layers(report: Report, limit: Limit, baseline: Report | None) -> Iterator[Finding]:
    """Yield a finding for each layer that the limit's pattern matches.

    Raises `BudgetError` for a metric that layers do not have, another unit, a report or a baseline without such layers,
    a relative limit without a baseline, and a pattern without a match.
    """
    column = require_column_of_layers(limit)
    rows = _require_layers(report, column, limit)
    matching = [row for row in rows if is_for_layer(limit, row["path"])]
    if not matching:
        paths = [row["path"] for row in rows if row["path"]]
        nearest = ", ".join(by_likeness(limit.pattern or "", paths)[:5])
        raise UnmatchedPatternError(f"{limit}: no layer matches; the nearest paths are: {nearest}")
    uncounted = _list_uncounted(report, column)
    before = {}
    if limit.relative:
        baseline = require_baseline(limit, baseline)
        _require_layers(baseline, column, limit)
        before = _read_ends_before(report, baseline, column)
    for row in matching:
        yield _check_layer(row, limit, column, uncounted, before)


def is_for_layer(limit: Limit, path: str) -> bool:
    """Return whether the pattern of a limit matches a path; the model as a whole, whose path is empty, is no layer."""
    return bool(path) and limit.pattern is not None and fnmatchcase(path, limit.pattern)


def require_column_of_layers(limit: Limit) -> str:
    """Return the column of layers that a limit bounds; raise `BudgetError` if there is none, or for another unit."""
    column = LAYER_COLUMNS.get(limit.key)
    if column is None:
        raise BudgetError(f"{limit}: layers have limits of {', '.join(LAYER_COLUMNS)}, not of {limit.key}")
    limit.bound(Column.of(column).unit)
    return column


def _require_layers(report: Report, column: str, limit: Limit) -> LayerTable:
    """Return the layers of a report; raise `BudgetError` if there are none, or if they lack a column."""
    if report.layers is None:
        raise BudgetError(f"{limit}: the report of {report.name} holds no layers")
    if not has_column(report, column):
        raise BudgetError(f"{limit}: the layers of {report.name} have no {column}; make the report again")
    return report.layers


def _list_uncounted(report: Report, column: str) -> str:
    """Return the names of work that is missing in a column; empty if it is complete, or no metric has these names.

    Operators without a formula lack MACs and FLOPs alike, so that either metric names them if the report has only one.
    A layer that lacks one of its weights has no number at all.
    """
    metrics = [name for name in (column, *WORK) if name in report.statuses] if column in WORK else []
    records = [report.statuses[name] for name in metrics[:1]]
    return ", ".join(
        text for record in records if record.completeness is Completeness.PARTIAL for text in record.missing
    )


def _read_ends(row: Mapping[str, Any], column: str, uncounted: str) -> Bounds:
    """Return the two ends of a layer's count: equal ones if all of it is counted."""
    is_open = uncounted and f"{column}_low" not in row
    return Bounds(row[column], None) if is_open else read_bounds(row, column)


def _read_ends_before(report: Report, baseline: Report, column: str) -> dict[str, Bounds]:
    """Return the two ends of the counts of the baseline's layers, by the paths that they have in the report."""
    uncounted = _list_uncounted(baseline, column)
    before = {row["path"]: row for row in baseline.layers or () if row[column] is not None}
    pairs = {row["other_path"]: row["path"] for row in align(baseline, report, columns=(column,))}
    return {
        path: _read_ends(before[old_path], column, uncounted)
        for path, old_path in pairs.items()
        if path is not None and old_path in before
    }


def _check_layer(
    row: Mapping[str, Any], limit: Limit, column: str, uncounted: str, before: Mapping[str, Bounds]
) -> Finding:
    """Return the finding of a layer.

    Args:
        row: The layer.
        limit: The limit.
        column: The column of the layer table that it bounds.
        uncounted: The names of the work that is missing in the column.
        before: The two ends of the counts of the baseline, by the path of the layer; empty for an absolute limit.
    """
    path, shown_as = row["path"], Column.of(column)
    if row[column] is None:
        return Finding(limit, path, Verdict.FAILED, f"its {column} are not counted")
    text, ends = shown_as.show(row[column]), _read_ends(row, column, uncounted)
    compared = Compared(row[column], ends, ends.sign(row[column]), text)
    if limit.relative:
        if path not in before:
            return Finding(limit, path, Verdict.FAILED, f"{text}, and the baseline has no such layer")
        reference = before[path].low
        if reference is None or reference != before[path].high:
            unknown = f"{text}, and the baseline's {column} of it are not all known, which has no ratio"
            return Finding(limit, path, Verdict.UNCERTAIN, unknown)
        compared = divide(row[column], ends, reference, f"({text} after {shown_as.show(reference)})")
    missing = uncounted or "the report does not say what is not counted"
    return judge(limit, path, limit.bound(shown_as.unit), compared, missing)
