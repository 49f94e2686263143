"""Exact changes: which counts moved between two rows of a case, by how much, and what else changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from profilerkit.piping.comparative import Comparative
from profilerkit.piping.quantity import format_number
from profilerkit.render.grids import Grid
from profilerkit.results.report import Report

from .responsible_layers import find_layers
from .rows import Row, Value
from .series import CaseName, find_causes, is_exact
from .store import Store

__all__ = ["Change", "compare_rows", "draw_changes", "judge_move"]


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
