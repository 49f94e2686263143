"""Exact changes: which counts moved between two rows of a case, by how much, in which layers, and what else changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..piping.quantity import format_number
from ..piping.status import Comparative
from ..results.report import Report
from ..trace.alignment import aligned
from .operators_moved import operators_by_layer, operators_moved
from .rows import Row, Value
from .series import Case, causes, is_exact
from .store import Store

__all__ = ["Change", "changes_between", "responsible_layers", "verdict_of"]

#: The column of the aligned layers that a metric is the sum of.
_COLUMNS = {
    "macs": "own_macs",
    "flops": "own_flops",
    "total_params": "params",
    "trainable_params": "params",
    "model_size": "params",
}
#: How many kinds of layers are named.
_NAMED = 4


@dataclass(frozen=True)
class Change:
    """A count that moved, or a value that appeared or was lost.

    Args:
        case: The model and its setting.
        metric: The metric; "status" for a row that failed or no longer fails.
        before: The value of the row before.
        after: The value of the row after.
        verdict: "worse", "better" or "moved", by the metric's own direction; "lost" and "appeared" if there is a value
            on one side alone.
        layers: The layers responsible, each with its difference.
        causes: What else differs between the two rows.
        old: The row before.
        new: The row after.
    """

    case: Case
    metric: str
    before: Value
    after: Value
    verdict: str
    layers: tuple[str, ...]
    causes: tuple[str, ...]
    old: Row
    new: Row

    @property
    def difference(self) -> float | None:
        """The value after minus that before; None where one is missing."""
        if self.before.value is None or self.after.value is None:
            return None
        return self.after.value - self.before.value

    def to_dict(self) -> dict[str, Any]:
        """Return the change as values that JSON holds."""
        about = {"spec": self.case.spec, "settings": self.case.settings, "metric": self.metric}
        values = {"before": self.before.value, "after": self.after.value, "difference": self.difference}
        rows = {"old_run": self.old.run, "new_run": self.new.run, "created": self.new.created}
        reasons = {"reason_before": self.before.reason, "reason_after": self.after.reason}
        lists = {"layers": list(self.layers), "causes": list(self.causes)}
        return {**about, **values, "verdict": self.verdict, **reasons, **lists, **rows}

    def shown(self) -> str:
        """Return both values as a text: ``4.09 GMACs -> 4.2 GMACs (+2.7 %)``."""
        sides = [
            value.shown if value.value is not None else f"{value.completeness.value} ({value.reason})"
            for value in (self.before, self.after)
        ]
        if self.difference is not None and sides[0] == sides[1]:  # equal in the digits that are shown
            sides = [f"{value.value:,}" for value in (self.before, self.after)]
        ratio = f" ({_percent(self.difference, self.before.value)})" if self.difference and self.before.value else ""
        return f"{sides[0]} -> {sides[1]}{ratio}"


def _percent(difference: float, base: float) -> str:
    return f"{'+' if difference > 0 else ''}{format_number(100 * difference / abs(base))} %"


def changes_between(old: Row, new: Row, store: Store, metrics: Collection[str] | None = None) -> list[Change]:
    """Return the changes of exact values from one row of a case to another, of some metrics or of all.

    The reports of the two rows, if the store has them, name the layers responsible.
    """
    moved = [
        (metric, old.values[metric], value)
        for metric, value in new.values.items()
        if metric in old.values
        and (metrics is None or metric in metrics)
        and _differ(metric, old.values[metric], value)
    ]
    if not moved:
        return []
    reports = store.report(old), store.report(new)
    reasons, case = causes(old, new), Case.of(new)
    changes = []
    for metric, before, after in moved:
        layers = _layers(*reports, metric) if after.value is not None else ()
        verdict = verdict_of(before, after, reports[1] or reports[0], metric)
        changes.append(Change(case, metric, before, after, verdict, layers, reasons, old, new))
    return changes


def _differ(metric: str, before: Value, after: Value) -> bool:
    if before.value is None and after.value is None:
        return False
    if before.value is None or after.value is None:  # also of a time: it was lost, or appeared
        return before.completeness is not after.completeness
    exact = is_exact(metric, before) and is_exact(metric, after)
    return exact and (before.value != after.value or before.completeness is not after.completeness)


def verdict_of(before: Value, after: Value, report: Report | None, metric: str) -> str:
    """Return what a move means by the direction of the metric that its report states; see `Change`."""
    if after.value is None:
        return "lost"
    if before.value is None:
        return "appeared"
    record = None if report is None else report.statuses.get(metric)
    unreported = Comparative.RECIPROCAL if after.unit == "s" else Comparative.NONE
    comparative = unreported if record is None else record.comparative
    return comparative.verdict(comparative.enhancement(float(before.value), float(after.value))) or "moved"


def _layers(before: Report | None, after: Report | None, metric: str) -> tuple[str, ...]:
    return () if before is None or after is None else responsible_layers(before, after, metric)


def responsible_layers(before: Report, after: Report, metric: str) -> tuple[str, ...]:
    """Return the layers in which a metric moved, the largest differences first, equal ones of a type in one text.

    A layer whose operators changed has them behind its difference: those of the first of equal layers. Layers that have
    only another name are left out.
    For the peak of memory it is the layer at which the peak stands, in either report.
    """
    if metric == "memory_footprint":
        return _peaks(before, after)
    column = _COLUMNS.get(metric)
    if column is None or before.layers is None or after.layers is None:
        return ()
    grouped: Counter[tuple[str, float, str]] = Counter()
    first: dict[tuple[str, float, str], tuple[str, str]] = {}
    for paths, kind, difference, change in _moved(before, after, column):
        key = kind, difference, change
        grouped[key] += 1
        first.setdefault(key, paths)
    _leave_out_renamed(grouped)
    if metric == "model_size" and _params(before) == _params(after) is not None:
        return ("as many parameters as before: buffers or dtypes differ",)
    ranked = sorted(grouped.items(), key=lambda item: -abs(item[0][1] * item[1]))
    sides = [operators_by_layer(each, metric) for each in (before, after)] if metric in ("macs", "flops") else [{}, {}]
    texts = [
        _text(key, count, first[key][0], operators_moved(sides[0], sides[1], first[key]))
        for key, count in ranked[:_NAMED]
    ]
    rest = sum(count for _, count in ranked[_NAMED:])
    return (*texts, *([f"and {rest} more layers"] if rest else []))


def _params(report: Report) -> object:
    record = report.statuses.get("total_params")
    return None if record is None else record.value


def _leave_out_renamed(grouped: Counter[tuple[str, float, str]]) -> None:
    """Take out layers that came for equal ones of their type that went: those that have another name now."""
    for kind, difference, change in [key for key in grouped if key[2] == "added"]:
        pairs = min(grouped[kind, difference, change], grouped[kind, -difference, "removed"])
        grouped[kind, difference, change] -= pairs
        grouped[kind, -difference, "removed"] -= pairs
    for key in [key for key, count in grouped.items() if not count]:
        del grouped[key]


def _moved(before: Report, after: Report, column: str) -> Iterator[tuple[tuple[str, str], str, float, str]]:
    """Yield the path of each layer that moved in both reports, its type, its difference, and whether it is new."""
    for row in aligned(before, after):
        if column == "params" and not row["is_leaf"]:
            continue
        difference = (row[f"other_{column}"] or 0) - (row[column] or 0)
        if difference:
            paths = row["path"], row["path"] if row["other_path"] is None else row["other_path"]
            yield paths, row["other_type"] or row["type"], difference, row["change"]


def _text(key: tuple[str, float, str], count: int, path: str, operators: str) -> str:
    kind, difference, change = key
    sign = "+" if difference > 0 else ""
    more = f" and {count - 1} like it" if count > 1 else ""
    how = f", {change}" if change in ("added", "removed") else ""
    by = f" by {operators}" if operators and not how else ""
    return f"{path or '(model)'} ({kind}){more}: {sign}{difference:,}{' each' if more else ''}{how}{by}"


def _peaks(before: Report, after: Report) -> tuple[str, ...]:
    texts = []
    for name, report in (("before", before), ("after", after)):
        memory, operators = report.memory, report.operators
        if memory is None or operators is None or memory.peak_index is None:
            continue
        peak: Mapping[str, Any] = operators[memory.peak_index]
        live = memory.live_bytes[memory.peak_index]
        layer = peak["layer"] or "(model)"
        texts.append(f"{name}: peak after {peak['operator']} in {layer}, {live:,} B beside {memory.weight_bytes:,} B")
    return tuple(texts)
