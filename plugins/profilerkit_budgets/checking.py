"""Checking a report against a budget: which limits are kept, broken or uncertain, and which layers are responsible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from profilerkit.error_text import shown
from profilerkit.errors import BudgetError, by_likeness
from profilerkit.piping.outcome import Completeness, is_number
from profilerkit.piping.quantity import Scale, format_number, scale_value
from profilerkit.plugging.offers import name_of_metric
from profilerkit.render.bounds import KINDS
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report, StatusRecord
from profilerkit.times.measurement import Measurement
from profilerkit.times.ratio import Ratio
from profilerkit.times.wording import format_count
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.records import LayerTable

from .baselines import require_same_call, under_other_conditions
from .limits import Budget, Limit

__all__ = ["Finding", "Verdict", "check"]


class Verdict(Enum):
    """The result of one limit."""

    PASSED = "passed"
    FAILED = "failed"
    #: A ratio whose confidence interval, or a count whose two ends, reach over the limit, or of too few samples.
    UNCERTAIN = "uncertain"


@dataclass(frozen=True)
class Finding:
    """One limit, checked: ``subject`` is the metric or the layer's path, ``responsible`` the layers that cost most.

    ``excess`` is how far the value lies above the limit, as a share of the limit: 0.25 for 5 under ``<= 4``, and below
    zero where the value lies below it. It is None where there is no value, and for a limit of 0. ``note`` is what the
    report says about the value, such as that a memory is without an optimizer's state.
    """

    limit: Limit
    subject: str
    verdict: Verdict
    detail: str
    responsible: tuple[str, ...] = ()
    excess: float | None = None
    note: str = ""


#: The column of the layer table that a metric is the sum of.
_COLUMNS = {
    "macs": "macs",
    "flops": "flops",
    "total_params": "params",
    "trainable_params": "params",
    "model_size": "params",
}
_LAYER_VALUES = {"params": ("", Scale.SI), "macs": ("MACs", Scale.SI), "flops": ("FLOPs", Scale.SI)}
#: How many layers are named.
_NAMED = 3


def check(report: Report, budget: Budget, baseline: Report | None = None) -> list[Finding]:
    """Return a finding for each limit, and for each layer that a layer limit matches.

    A count of which not all is known has two ends: its limit is kept or broken only where both ends say so, and
    uncertain otherwise, with the reason. A value that could not be computed proves nothing: its limit fails. A ratio of
    measured values fails where its whole confidence interval is beyond the limit, and is uncertain where the interval
    reaches over it, or where there are too few samples for an interval.
    Raises `BudgetError` for a limit that cannot be checked: an unknown metric, another unit, a relative limit without a
    ``baseline``, or with one of other inputs or options, a pattern that matches no layer.
    """
    for name, value, kind in (("report", report, Report), ("budget", budget, Budget), ("baseline", baseline, Report)):
        if not (isinstance(value, kind) or (name == "baseline" and value is None)):
            raise BudgetError(f"{name}={shown(value)}: give a {kind.__name__}")
    if budget.needs_baseline and baseline is None:
        relative = next(limit for limit in budget.limits if limit.relative)
        raise BudgetError(f"{relative} is relative, and there is no baseline to compare with; give one")
    remark = require_same_call(report, baseline) if budget.needs_baseline and baseline is not None else ""
    findings: list[Finding] = []
    for limit in budget.limits:
        if limit.pattern is not None:
            findings += _of_layers(report, limit, baseline)
        else:
            findings.append(_of_metric(report, limit, baseline))
    return [_with_note(finding, report, remark) for finding in findings]


def _with_note(finding: Finding, report: Report, remark: str) -> Finding:
    record = report.statuses.get(finding.subject) if finding.limit.pattern is None else None
    notes = (record.note if record is not None else "", remark if finding.limit.relative else "")
    return replace(finding, note="; ".join(filter(None, notes)))


def _of_metric(report: Report, limit: Limit, baseline: Report | None) -> Finding:
    if limit.key not in report.statuses:
        limit = replace(limit, key=name_of_metric(limit.key))
    if limit.key not in report.statuses:
        nearest = ", ".join(by_likeness(limit.key, report.statuses))
        raise BudgetError(f"{limit}: the report of {report.name} has no {limit.key}; it has, nearest first: {nearest}")
    record = report.status(limit.key)
    bound = limit.bound(record.base_unit)  # raises for a wrong unit, whatever the value is
    reason = _without_proof(record, limit)
    if reason:
        return Finding(limit, limit.key, Verdict.FAILED, reason)
    if limit.relative and baseline is not None:
        verdict, detail, value = _relative(report, limit, baseline)
    else:
        value, ends = float(record.value), record.ends or Bounds(record.value, record.value)
        if record.sign and record.ends is None:  # a partial measurement
            ends = Bounds(value, None)
        verdict = _VERDICTS[ends.verdict(lambda end: limit.allows(end, bound), value)]
        detail = f"{record.sign}{record.shown}{_distance(value, bound)}{_why(record, verdict)}"
    named = () if verdict is Verdict.PASSED else _responsible(report, limit.key, baseline if limit.relative else None)
    return Finding(limit, limit.key, verdict, detail, named, _excess(value, bound))


def _excess(value: Any, bound: float) -> float | None:
    return float(value) / bound - 1.0 if bound else None


def _without_proof(record: StatusRecord, limit: Limit) -> str:
    """Return why a value can neither keep to a limit nor break it; nothing where it can."""
    if record.value is None:
        return f"{record.completeness.value}: {'; '.join(record.missing)}"
    return "" if is_number(record.value) else f"{record.key} is no number"


_VERDICTS = {True: Verdict.PASSED, False: Verdict.FAILED, None: Verdict.UNCERTAIN}


def _why(record: StatusRecord, verdict: Verdict) -> str:
    """Return why the ends of a value do not decide a limit; nothing where they do."""
    if verdict is not Verdict.UNCERTAIN or record.completeness is not Completeness.PARTIAL:
        return ""
    return f": {_KINDS[record.sign]}, which does not decide this limit: {', '.join(record.missing)}"


_KINDS = {"≥ ": "at least so much", "≤ ": "at most so much", "~ ": "more or less so much", "": "not exact"}


def _relative(report: Report, limit: Limit, baseline: Report) -> tuple[Verdict, str, float]:
    """Return the verdict on a ratio to a baseline, what is known of the ratio, and the ratio itself."""
    record = report.status(limit.key)
    reference = baseline.statuses.get(limit.key)
    if reference is None or not is_number(reference.value):
        raise BudgetError(f"{limit}: the baseline {baseline.name} has no value of {limit.key} to compare with")
    if reference.completeness is Completeness.PARTIAL:
        kind = KINDS[reference.sign]
        raise BudgetError(
            f"{limit}: {limit.key} of the baseline {baseline.name} is a value of which not all is known "
            f"({kind}), which has no ratio; give a baseline that is counted completely"
        )
    ratio = Ratio.of(*(v if isinstance(v, Measurement) else float(v) for v in (reference.value, record.value)))
    value, low, high = map(format_number, (ratio.value, ratio.low, ratio.high))
    shown = f"({record.shown} after {reference.shown})"
    if record.sign and not isinstance(record.value, Measurement):
        ends = _over(record.ends or Bounds(), float(reference.value))
        verdict = _VERDICTS[ends.verdict(lambda end: limit.allows(end, limit.number), ratio.value)]
        return verdict, f"{record.sign}{value}x {shown}{_why(record, verdict)}", ratio.value
    if ratio.low == ratio.high:
        verdict = Verdict.PASSED if limit.allows(ratio.value, limit.number) else Verdict.FAILED
        return verdict, f"{value}x {shown}", ratio.value
    inside = f"{low} to {high}" if ratio.is_range else f"{low}, {high}"
    pairs = f", {format_count(ratio.pairs, 'pair')}" if ratio.is_range and ratio.pairs else ""
    detail = f"{value}x [{inside}{pairs}] {shown}{'' if ratio.paired else _not_in_turn(report, baseline)}"
    if ratio.is_range:
        return Verdict.UNCERTAIN, detail, ratio.value
    allowed = [limit.allows(end, limit.number) for end in (ratio.low, ratio.high)]
    verdict = Verdict.PASSED if all(allowed) else Verdict.UNCERTAIN if any(allowed) else Verdict.FAILED
    return verdict, detail, ratio.value


def _not_in_turn(report: Report, baseline: Report) -> str:
    """Return what makes a ratio of two runs less certain: other machines and versions."""
    return "; ".join([", not measured in turn", *filter(None, [under_other_conditions(report, baseline)])])


def _over(ends: Bounds, reference: float) -> Bounds:
    """Return the two ends of a ratio to an exact number; nothing is known of one to nothing."""
    if not reference:
        return Bounds()
    return Bounds(*(None if end is None else end / reference for end in (ends.low, ends.high)))


def _distance(value: float, bound: float) -> str:
    if not bound:
        return ""
    return f", {format_number(100 * value / bound)} % of the limit"


def _of_layers(report: Report, limit: Limit, baseline: Report | None) -> Iterator[Finding]:
    column = _COLUMNS.get(limit.key, limit.key)
    if column not in _LAYER_VALUES:
        raise BudgetError(f"{limit}: layers have limits of {', '.join(_LAYER_VALUES)}, not of {limit.key}")
    if report.layers is None:
        raise BudgetError(f"{limit}: the report of {report.name} holds no layers")
    pattern = limit.pattern or ""
    matching = [row for row in report.layers if row["path"] and fnmatchcase(row["path"], pattern)]
    if not matching:
        nearest = ", ".join(by_likeness(pattern, [row["path"] for row in report.layers if row["path"]])[:5])
        raise BudgetError(f"{limit}: no layer matches; the nearest paths are: {nearest}")
    partial = _list_uncounted(report, column)
    before = _before(report, baseline, column) if limit.relative else {}
    for row in matching:
        yield _of_layer(row, limit, column, partial, before)


def _of_layer(row: Mapping[str, Any], limit: Limit, column: str, partial: str, before: Mapping[str, float]) -> Finding:
    unit, scale = _LAYER_VALUES[column]
    bound, path = limit.bound(unit), row["path"]
    if row[column] is None:
        return Finding(limit, path, Verdict.FAILED, f"its {column} are not counted")
    value, ends = float(row[column]), _ends_of_layer(row, column, partial)
    detail = str(scale_value(value, unit, scale))
    if limit.relative:
        if path not in before:
            return Finding(limit, path, Verdict.FAILED, f"{detail}, and the baseline has no such layer")
        shown = f"({detail} after {scale_value(before[path], unit, scale)})"
        value = Ratio.of(before[path], value).value if value or before[path] else 1.0  # nothing stays nothing
        ends = _over(ends, before[path]) if partial else Bounds(value, value)
        detail = f"{format_number(value)}x {shown}"
    verdict = _VERDICTS[ends.verdict(lambda end: limit.allows(end, bound), value)]
    detail = f"{ends.sign(value)}{detail}"
    if verdict is Verdict.UNCERTAIN:
        detail = f"{detail}: {_KINDS[ends.sign(value)]}, which does not decide this limit: {partial}"
    return Finding(limit, path, verdict, detail, excess=_excess(value, bound))


def _ends_of_layer(row: Mapping[str, Any], column: str, partial: str) -> Bounds:
    if f"{column}_low" in row:
        return Bounds(row[f"{column}_low"], row[f"{column}_high"])
    return Bounds(row[column], None if partial else row[column])


def _list_uncounted(report: Report, column: str) -> str:
    record = report.statuses.get(column)
    missing = record.missing if record is not None and record.completeness is Completeness.PARTIAL else ()
    return ", ".join(missing)


def _before(report: Report, baseline: Report | None, column: str) -> dict[str, float]:
    if baseline is None:
        return {}
    sides = Comparison(baseline, (report,)).layers()
    return {
        row["other_path"]: row[column] for row in sides if row["other_path"] is not None and row[column] is not None
    }


def _responsible(report: Report, key: str, baseline: Report | None) -> tuple[str, ...]:
    """Return the layers that cost most of a metric, or that grew most beside the baseline."""
    if key == "memory_footprint":
        return _at_the_peak(report)
    times = report.statuses.get("layer_times")
    if key in ("execution_time", "throughput") and times is not None and isinstance(times.value, LayerTable):
        return _most(times.value, "own_forward_seconds", "s", Scale.TIME)
    column = _COLUMNS.get(key)
    if column is None or report.layers is None:
        return ()
    if baseline is not None and baseline.layers is not None:
        return _list_grown_layers(Comparison(baseline, (report,)), column)
    return _most(report.layers, column, *_LAYER_VALUES[column])


def _most(layers: LayerTable, column: str, unit: str, scale: Scale) -> tuple[str, ...]:
    whole = layers[0][column.removeprefix("own_")] or 0
    rows = [row for row in layers.top(_NAMED, by=column) if row[column]]
    return tuple(
        f"{row['path'] or '(model)'} ({row['type']}): {scale_value(row[column], unit, scale)}"
        + (f", {format_number(100 * row[column] / whole)} %" if whole else "")
        for row in rows
    )


def _list_grown_layers(comparison: Comparison, column: str) -> tuple[str, ...]:
    unit, scale = _LAYER_VALUES[column]
    grown = []
    for row in comparison.layers():
        before, after = (row[name] or 0 for name in (column, f"other_{column}"))
        if row["is_leaf"] and after > before:
            grown.append((after - before, row["other_path"], row["type"], row["change"]))
    grown.sort(key=lambda one: -one[0])
    return tuple(
        f"{path or '(model)'} ({kind}): +{scale_value(more, unit, scale)}{', added' if change == 'added' else ''}"
        for more, path, kind, change in grown[:_NAMED]
    )


def _at_the_peak(report: Report) -> tuple[str, ...]:
    memory, operators = report.memory, report.operators
    if memory is None or operators is None or memory.peak_index is None:
        return ()
    peak = operators[memory.peak_index]
    most = scale_value(memory.live_bytes[memory.peak_index], "B", Scale.IEC)
    weights = scale_value(memory.weight_bytes, "B", Scale.IEC)
    where = f"{peak['layer'] or '(model)'}: most is alive after {peak['operator']}, {most} of activations and inputs"
    return (where, f"weights: {weights}")
