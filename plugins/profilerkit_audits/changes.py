"""Exact changes: which counts moved between two rows of a case, by how much, in which layers, and what else changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from profilerkit.piping.comparative import Comparative
from profilerkit.piping.quantity import format_number
from profilerkit.render.grids import Grid
from profilerkit.results.report import Report
from profilerkit.trace.alignment import align

from .rows import Row, Value
from .series import CaseName, find_causes, is_exact
from .store import Store

__all__ = ["Change", "compare_operators", "compare_rows", "draw_changes", "find_layers", "judge_move", "sum_operators"]

#: The column of the aligned layers that a metric is the sum of.
_COLUMNS = {
    "macs": "own_macs",
    "flops": "own_flops",
    "total_params": "params",
    "trainable_params": "params",
    "model_size": "params",
}
#: How many kinds of layers, and how many operators of each, are named.
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

    case: CaseName
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
        return {
            "spec": self.case.spec,
            "settings": self.case.settings,
            "metric": self.metric,
            "before": self.before.value,
            "after": self.after.value,
            "difference": self.difference,
            "verdict": self.verdict,
            "reason_before": self.before.reason,
            "reason_after": self.after.reason,
            "layers": list(self.layers),
            "causes": list(self.causes),
            "old_run": self.old.run,
            "new_run": self.new.run,
            "created": self.new.created,
        }

    def describe(self) -> str:
        """Return both values as a text: ``4.09 GMACs -> 4.2 GMACs (+2.7 %)``."""
        sides = [
            value.text if value.value is not None else f"{value.completeness.value} ({value.reason})"
            for value in (self.before, self.after)
        ]
        if self.difference is not None and sides[0] == sides[1]:  # equal in the digits that are shown
            sides = [f"{value.sign}{value.value:,}" for value in (self.before, self.after)]
        ratio = ""
        if self.difference and self.before.value:
            percent = format_number(100 * self.difference / abs(self.before.value))
            ratio = f" ({'+' if self.difference > 0 else ''}{percent} %)"
        return f"{sides[0]} -> {sides[1]}{ratio}"


def draw_changes(changes: Iterable[Change], title: str) -> Grid:
    """Return changes as a table."""
    rows = [
        (
            str(change.case),
            change.metric,
            change.verdict,
            change.describe(),
            "; ".join(change.layers),
            "; ".join(change.causes),
        )
        for change in changes
    ]
    return Grid(title, ("Model", "Metric", "", "Value", "Layers", "What else changed"), tuple(rows))


def compare_rows(old: Row, new: Row, store: Store, metrics: Collection[str] | None = None) -> list[Change]:
    """Return the changes of exact values from one row of a case to another, of some metrics or of all.

    The reports of the two rows, if the store has them, name the layers responsible.
    """
    moved = {
        metric: (old.values[metric], value)
        for metric, value in new.values.items()
        if metric in old.values
        and (metrics is None or metric in metrics)
        and _has_moved(metric, old.values[metric], value)
    }
    if not moved:
        return []
    old_report, new_report = store.report(old), store.report(new)
    causes, case = find_causes(old, new), CaseName.of(new)
    changes = []
    for metric, (before, after) in moved.items():
        layers: tuple[str, ...] = ()
        if after.value is not None and old_report is not None and new_report is not None:
            layers = find_layers(old_report, new_report, metric)
        verdict = judge_move(before, after, new_report or old_report, metric)
        changes.append(Change(case, metric, before, after, verdict, layers, causes, old, new))
    return changes


def _has_moved(metric: str, before: Value, after: Value) -> bool:
    if before.value is None or after.value is None:  # also of a time: it was lost, or appeared
        return before.value is not after.value and before.completeness is not after.completeness
    exact = is_exact(metric, before) and is_exact(metric, after)
    return exact and (before.value != after.value or before.completeness is not after.completeness)


def judge_move(before: Value, after: Value, report: Report | None, metric: str) -> str:
    """Return what a move means by the direction of the metric that its report states; see `Change`."""
    if after.value is None:
        return "lost"
    if before.value is None:
        return "appeared"
    record = None if report is None else report.statuses.get(metric)
    unreported = Comparative.RECIPROCAL if after.unit == "s" else Comparative.NONE
    comparative = unreported if record is None else record.comparative
    return comparative.verdict(comparative.enhancement(float(before.value), float(after.value))) or "moved"


# Layers ---------------------------------------------------------------------------------------------------------------


class _Move(NamedTuple):
    """What equal layers have in common: their type, the difference of each, and whether they are new."""

    kind: str
    difference: float
    change: str


def find_layers(before: Report, after: Report, metric: str) -> tuple[str, ...]:
    """Return the layers in which a metric moved, the largest differences first, equal ones of a type in one text.

    A layer whose operators changed has them behind its difference: those of the first of equal layers. Layers that have
    only another name are left out. For the peak of memory it is the layer at which the peak stands, in either report.
    """
    if metric == "memory_footprint":
        return tuple(_find_peaks(before, after))
    column = _COLUMNS.get(metric)
    if column is None or before.layers is None or after.layers is None:
        return ()
    counts: Counter[_Move] = Counter()
    paths: dict[_Move, tuple[str, str]] = {}
    for move, sides in _find_moves(before, after, column):
        counts[move] += 1
        paths.setdefault(move, sides)
    counts = leave_out_renamed(counts)
    params = [report.get("total_params") for report in (before, after)]
    if metric == "model_size" and params[0] == params[1] is not None:
        return ("as many parameters as before: buffers or dtypes differ",)
    ranked = sorted(counts.items(), key=lambda item: -abs(item[0].difference * item[1]))
    operators = [sum_operators(report, metric) if metric in ("macs", "flops") else {} for report in (before, after)]
    texts = []
    for move, count in ranked[:_NAMED]:
        by = compare_operators(operators[0], operators[1], paths[move])
        texts.append(_describe_move(move, count, paths[move][0], by))
    rest = sum(count for _, count in ranked[_NAMED:])
    return (*texts, *([f"and {rest} more layers"] if rest else []))


def leave_out_renamed(counts: Counter[_Move]) -> Counter[_Move]:
    """Return counts without layers that came for equal ones of their type that went: they have another name now."""
    left = Counter(counts)
    for move in counts:
        if move.change == "added":
            gone = _Move(move.kind, -move.difference, "removed")
            pairs = min(counts[move], counts[gone])
            left[move] -= pairs
            left[gone] -= pairs
    return +left


def _find_moves(before: Report, after: Report, column: str) -> Iterator[tuple[_Move, tuple[str, str]]]:
    """Yield each layer that moved, with its path in both reports."""
    for row in align(before, after):
        if column == "params" and not row["is_leaf"]:
            continue
        difference = (row[f"other_{column}"] or 0) - (row[column] or 0)
        if difference:
            other_path = row["path"] if row["other_path"] is None else row["other_path"]
            yield _Move(row["other_type"] or row["type"], difference, row["change"]), (row["path"], other_path)


def _describe_move(move: _Move, count: int, path: str, operators: str) -> str:
    more = f" and {count - 1} like it" if count > 1 else ""
    how = f", {move.change}" if move.change in ("added", "removed") else f" by {operators}" if operators else ""
    return f"{path or '(model)'} ({move.kind}){more}: {move.difference:+,}{' each' if more else ''}{how}"


def _find_peaks(before: Report, after: Report) -> Iterator[str]:
    for name, report in (("before", before), ("after", after)):
        memory, operators = report.memory, report.operators
        if memory is None or operators is None or memory.peak_index is None:
            continue
        peak: Mapping[str, Any] = operators[memory.peak_index]
        live = memory.live_bytes[memory.peak_index]
        layer = peak["layer"] or "(model)"
        yield f"{name}: peak after {peak['operator']} in {layer}, {live:,} B beside {memory.weight_bytes:,} B"


# Operators ------------------------------------------------------------------------------------------------------------

#: For each layer and operator its calls and its count.
Operators = Mapping[tuple[str, str], tuple[int, float]]


def sum_operators(report: Report, column: str) -> Operators:
    """Return the calls of each operator in each layer of a report, and the sum of their ``macs`` or ``flops``."""
    sums: dict[tuple[str, str], tuple[int, float]] = {}
    for row in report.operators or ():
        key = str(row["layer"]), str(row["operator"])
        calls, count = sums.get(key, (0, 0))
        sums[key] = calls + 1, count + (row[column] or 0)
    return sums


def compare_operators(before: Operators, after: Operators, layers: tuple[str, str]) -> str:
    """Return the operators of a layer, named by its path in either report, whose counts moved; the largest first.

    Empty if one operator moved that is called as often as before: the difference of the layer says the same.

    >>> before = {("rotary", "bmm"): (1, 16)}
    >>> compare_operators(before, {("rotary", "mul"): (1, 8)}, ("rotary", "rotary"))
    'bmm -16 (no longer called), mul +8 (not called before)'
    """
    old, new = (
        {name: sums for (layer, name), sums in side.items() if layer == path}
        for side, path in zip((before, after), layers, strict=True)
    )
    moved = []
    for name in dict.fromkeys((*old, *new)):
        (calls, count), (new_calls, new_count) = old.get(name, (0, 0)), new.get(name, (0, 0))
        if count != new_count:
            moved.append((new_count - count, name, _describe_calls(calls, new_calls)))
    if not moved or (len(moved) == 1 and not moved[0][2]):
        return ""
    moved.sort(key=lambda move: -abs(move[0]))
    texts = [f"{name} {difference:+,}{calls}" for difference, name, calls in moved[:_NAMED]]
    return ", ".join([*texts, *([f"and {len(moved) - _NAMED} more operators"] if len(moved) > _NAMED else [])])


def _describe_calls(before: int, after: int) -> str:
    if before == after:
        return ""
    if not before:
        return " (not called before)"
    return f" ({before} -> {after} calls)" if after else " (no longer called)"
