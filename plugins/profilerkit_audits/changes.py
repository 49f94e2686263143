"""Exact changes between two rows of a case: the counts that moved, by how much, and the possible causes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from profilerkit.piping.comparative import Comparative
from profilerkit.piping.quantity import format_number
from profilerkit.render.grids import Grid
from profilerkit.results.report import Report

from .responsible_layers import find_layers
from .rows import Row, Value
from .series import CaseName, find_causes, has_exact_numbers, is_same
from .store import Store

#: How many cases a sentence names; if there are more, it has their number.
_NAMED = 3


@dataclass(frozen=True)
class Change:
    """A count that moved, or a value that appeared or was lost.

    Args:
        case: The model and its setting.
        metric: The metric.
        before: The value of the row before.
        after: The value of the row after.
        verdict: "worse", "better" or "moved", by the direction of the metric; "lost" and "appeared" if one row alone
            has a value.
        layers: The layers responsible, each with its difference.
        causes: Other differences between the two rows, such as versions.
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
        """The value after minus the value before; None if one is missing, or is a bound."""
        if self.before.value is None or self.after.value is None or self.before.sign or self.after.sign:
            return None
        return self.after.value - self.before.value

    def to_dict(self) -> dict[str, Any]:
        """Return the change as values that JSON holds; a sign, such as "≥ ", tells that a value is a bound."""
        return {
            "spec": self.case.spec,
            "settings": self.case.settings,
            "metric": self.metric,
            "before": self.before.value,
            "after": self.after.value,
            "sign_before": self.before.sign,
            "sign_after": self.after.sign,
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
        sides = [_write_side(value) for value in (self.before, self.after)]
        if sides[0] == sides[1] and self.before.value != self.after.value:  # equal in the digits that are shown
            sides = [value.digits for value in (self.before, self.after)]
        ratio = ""
        if self.difference and self.before.value:
            percent = format_number(100 * self.difference / abs(self.before.value))
            ratio = f" ({'+' if self.difference > 0 else ''}{percent} %)"
        return f"{sides[0]} -> {sides[1]}{ratio}"


def _write_side(value: Value) -> str:
    """Return a value as text; if there is no number, its completeness and the reason."""
    reason = f" ({value.reason})" if value.reason else ""
    return value.text if value.value is not None else f"{value.completeness.value}{reason}"


def draw_changes(changes: Iterable[Change], title: str) -> Grid:
    """Return changes as a table."""
    rows = [
        (str(change.case), change.metric, change.verdict, change.describe(), "; ".join(change.layers))
        for change in changes
    ]
    return Grid(title, ("Model", "Metric", "", "Value", "Layers"), tuple(rows))


def write_causes(pairs: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Return a sentence for all cases with the same causes: the other differences between their rows.

    >>> write_causes([("a", ("torch 2.8 -> 2.9",)), ("b", ("torch 2.8 -> 2.9",)), ("a", ("torch 2.8 -> 2.9",))])
    ['What else changed for a, b: torch 2.8 -> 2.9']
    """
    names_by_causes: dict[tuple[str, ...], dict[str, None]] = {}
    for name, causes in pairs:
        if causes:
            names_by_causes.setdefault(causes, {})[name] = None
    sentences = []
    for causes, names in names_by_causes.items():
        whom = ", ".join(names) if len(names) <= _NAMED else f"{len(names):,} cases"
        sentences.append(f"What else changed for {whom}: {'; '.join(causes)}")
    return sentences


def compare_rows(old: Mapping[str, Row], new: Mapping[str, Row], store: Store) -> Iterator[Change]:
    """Yield the changes of exact values of a case; ``old`` and ``new`` have by metric the row with the value.

    The reports of the two rows, if the store has them, name the layers responsible.
    """
    reports: dict[int | None, Report | None] = {}

    def read_report(row: Row) -> Report | None:
        if row.id not in reports:  # many metrics of a row move together
            reports[row.id] = store.report(row)
        return reports[row.id]

    for metric, row in new.items():
        if metric in old and _has_moved(metric, old[metric].values[metric], row.values[metric]):
            yield _explain_change(metric, old[metric], row, read_report)


def _explain_change(metric: str, old: Row, new: Row, read_report: Callable[[Row], Report | None]) -> Change:
    before, after = old.values[metric], new.values[metric]
    old_report, new_report = read_report(old), read_report(new)
    layers: tuple[str, ...] = ()
    if after.value is not None and old_report is not None and new_report is not None:
        layers = find_layers(old_report, new_report, metric)
    verdict = judge_move(before, after, new_report or old_report, metric)
    return Change(CaseName.of(new), metric, before, after, verdict, layers, find_causes(old, new), old, new)


def _has_moved(metric: str, before: Value, after: Value) -> bool:
    """Return whether an exact value changed, or any value was lost or appeared."""
    if _grade(before) != _grade(after):
        return True
    return has_exact_numbers(metric, before, after) and not is_same(before, after)


def _grade(value: Value) -> int:
    """Return the grade of a value: 0 for no value, 1 for a value that is no number, such as a table, 2 for a number."""
    return int(value.has_value) + int(value.value is not None)


def judge_move(before: Value, after: Value, report: Report | None, metric: str) -> str:
    """Return the verdict on a move, by the direction of the metric in the report; see `Change`.

    Bounds are better or worse if every value between their ends is.
    """
    if _grade(after) != _grade(before):
        return "lost" if _grade(after) < _grade(before) else "appeared"
    if before.value is None or after.value is None:
        return "moved"
    record = None if report is None else report.statuses.get(metric)
    unreported = Comparative.RECIPROCAL if after.unit == "s" else Comparative.NONE  # less time is better
    comparative = unreported if record is None else record.comparative
    verdicts = {
        comparative.verdict(comparative.enhancement(*pair)) for pair in product(_find_ends(before), _find_ends(after))
    }
    return (verdicts.pop() if len(verdicts) == 1 else "") or "moved"


def _find_ends(value: Value) -> tuple[float, float]:
    """Return the two ends of a number; an end that is not known is zero or infinity, because bounds are of counts."""
    if not value.sign:
        return (float(value.value or 0),) * 2
    return value.low or 0.0, math.inf if value.high is None else value.high
