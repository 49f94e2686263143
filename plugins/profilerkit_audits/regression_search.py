"""Regressions: exact changes of counts, and steps in times, over all models and metrics of a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from profilerkit.errors import ArgumentError

from .changes import Change, compare_rows, judge_move
from .lookup import find_run, open_store
from .rows import Row, Value
from .series import find_causes, find_sources, group_by_case
from .step_search import Step, search_steps
from .steps import MIN_NIGHTS, control_rate
from .store import Store


@dataclass(frozen=True)
class Regressions:
    """The changes in a store.

    Args:
        changes: Exact changes of counts, the oldest first.
        steps: Steps in the times of single models.
        machines: Steps that all models of a machine have in common.
        series: How many series of times were searched.
        notes: The times that were not searched, and why.
    """

    changes: tuple[Change, ...] = ()
    steps: tuple[Step, ...] = ()
    machines: tuple[Step, ...] = ()
    series: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_worse(self) -> bool:
        """Whether a count or a time of a model became worse, or a value was lost."""
        verdicts = {change.verdict for change in self.changes} | {step.verdict for step in self.steps}
        return not verdicts.isdisjoint({"worse", "lost"})

    def to_dict(self) -> dict[str, Any]:
        """Return all as values that JSON holds."""
        lists = {name: [move.to_dict() for move in getattr(self, name)] for name in ("changes", "steps", "machines")}
        return {**lists, "series": self.series, "notes": list(self.notes)}


def regressions(
    store: Store | str | PathLike[str],
    *,
    rate: float = 0.05,
    min_change: float = 0.02,
    window: int = 60,
    since: str | None = None,
) -> Regressions:
    """Return the changes in a store: counts exactly, times by change points (see `step_search`).

    Args:
        store: A store, or its URL or path.
        rate: The rate of false discoveries among the steps in times, over all models, metrics and machines.
        min_change: Smaller steps in times are not reported: 0.02 is 2 %.
        window: How many of the newest nights of a series of times are searched.
        since: A run, by `find_run`: changes of rows that are older than its beginning are not reported.

    Raises `ArgumentError` for a rate or a change below 0 or from 1 on, a window of fewer than 8 nights, an unknown run.
    """
    _check_options(rate, min_change, window)
    with open_store(store) as opened:
        begin = "" if since is None else find_run(opened, since).started
        series = group_by_case(opened.rows(all_attempts=True))
        changes = [change for rows in series.values() for change in _find_changes(rows, opened, begin)]
        searched = search_steps(series, window)
        rates = control_rate([step.p for step in searched.steps])
        steps = [
            _describe(replace(step, q=q), opened)
            for step, q in zip(searched.steps, rates, strict=True)
            if q <= rate and abs(step.change) >= min_change and step.new.created >= begin
        ]
    return Regressions(
        changes=tuple(sorted(changes, key=lambda change: change.new.created)),
        steps=tuple(step for step in steps if step.case is not None),
        machines=tuple(step for step in steps if step.case is None),
        series=searched.series,
        notes=searched.notes,
    )


def _check_options(rate: float, min_change: float, window: int) -> None:
    for name, value in (("rate", rate), ("min_change", min_change)):
        if not 0 <= value < 1:
            raise ArgumentError(f"{name}={value!r}: give a number from 0 on and below 1, such as 0.05")
    if window < MIN_NIGHTS:
        raise ArgumentError(f"window={window!r}: a step is looked for in {MIN_NIGHTS} nights at the least")


def _find_changes(rows: list[Row], store: Store, begin: str) -> Iterator[Change]:
    """Yield the exact changes of a case: each value against the last value before; a value is lost once.

    Rows from before ``begin`` are only earlier values.
    """
    earlier: dict[str, Row] = {}
    lost: set[str] = set()
    for row in rows:
        with_value = {metric for metric, value in row.values.items() if value.has_value}
        if row.created >= begin:
            compared = {metric: row for metric in row.values if metric in with_value or metric not in lost}
            yield from compare_rows(earlier, compared, store)
        earlier = find_sources([row], earlier)
        lost = lost - with_value | (row.values.keys() - with_value)


def _describe(step: Step, store: Store) -> Step:
    """Return a step with its verdict, and with the other changes of that night."""
    unit = step.new.values[step.metric].unit
    verdict = judge_move(Value(1.0, unit), Value(1.0 + step.change, unit), store.report(step.new), step.metric)
    return replace(step, verdict=verdict, causes=find_causes(step.old, step.new))
