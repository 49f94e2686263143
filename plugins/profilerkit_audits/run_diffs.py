"""Two runs side by side: the values that changed, the number of equal values, and the cases of only one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from profilerkit.count_text import format_count, list_some

from .changes import Change, compare_rows
from .lookup import find_run, open_store
from .rows import Row
from .series import CaseName, find_sources, group_by_case, has_exact_numbers, is_same
from .store import Run, Store

#: How many cases without a metric are named.
_NAMED = 3


@dataclass(frozen=True)
class RunDiff:
    """Two runs side by side.

    Args:
        old: The run before.
        new: The run after.
        changes: The exact values that moved, in the order of the run after.
        same: How many exact values are equal.
        timed: How many measured values both have, which are not compared: `regressions` compares times over many runs.
        removed: The cases that only the run before has.
        added: The cases that only the run after has.
        removed_metrics: By metric the cases of both runs that have it in the run before alone.
    """

    old: Run
    new: Run
    changes: tuple[Change, ...] = ()
    same: int = 0
    timed: int = 0
    removed: tuple[CaseName, ...] = ()
    added: tuple[CaseName, ...] = ()
    removed_metrics: Mapping[str, tuple[CaseName, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as values that JSON holds."""
        runs = {name: {"run": run.run, "started": run.started} for name, run in (("old", self.old), ("new", self.new))}
        cases = {name: [str(case) for case in getattr(self, name)] for name in ("removed", "added")}
        changes = [change.to_dict() for change in self.changes]
        counts = {"same": self.same, "timed": self.timed}
        removed_metrics = {metric: list(map(str, without)) for metric, without in self.removed_metrics.items()}
        return {**runs, "changes": changes, **counts, **cases, "removed_metrics": removed_metrics}

    def summary(self) -> str:
        """Return in a sentence how much moved."""
        cases = format_count(len({change.case for change in self.changes}), "case")
        parts = [f"{format_count(len(self.changes), 'value')} of {cases} moved", f"{self.same:,} equal"]
        if self.timed:
            times = format_count(self.timed, "time")
            parts.append(f"{times} not compared: 'profilerkit regressions' compares them")
        for side, alone in (("before", self.removed), ("after", self.added)):
            if alone:
                parts.append(f"only {side}: {', '.join(map(str, alone))}")
        if self.removed_metrics:
            metrics = [
                f"{name} of {list_some(list(map(str, of)), _NAMED)}" for name, of in self.removed_metrics.items()
            ]
            parts.append(f"metrics only before: {', '.join(metrics)}")
        return "; ".join(parts)


def diff_runs(store: Store | str | PathLike[str], old: str, new: str) -> RunDiff:
    """Return the changes between two runs: every exact value that moved, and values that appeared or were lost.

    Args:
        store: A store, or its URL or path.
        old: The run before: its identifier, the beginning of its identifier, or ``last~1``.
        new: The run after.

    Raises `ArgumentError` for a run that the store has not.
    """
    with open_store(store) as opened:
        old_run, new_run = find_run(opened, old), find_run(opened, new)
        before, after = _read_sources(opened, old_run), _read_sources(opened, new_run)
        both = [case for case in after if case in before]
        changes = [change for case in both for change in compare_rows(before[case], after[case], opened)]
    counted = [_count_equal(before[case], after[case]) for case in both]
    return RunDiff(
        old_run,
        new_run,
        changes=tuple(changes),
        same=sum(equal for equal, _ in counted),
        timed=sum(timed for _, timed in counted),
        removed=tuple(case for case in before if case not in after),
        added=tuple(case for case in after if case not in before),
        removed_metrics=_find_removed_metrics(before, after, both),
    )


def _read_sources(store: Store, run: Run) -> dict[CaseName, dict[str, Row]]:
    """Return by case and metric the row of a run with its value: several entries of a plan may measure one case."""
    return {case: find_sources(rows) for case, rows in group_by_case(store.rows(run=run.run)).items()}


def _find_removed_metrics(
    before: Mapping[CaseName, Mapping[str, Row]],
    after: Mapping[CaseName, Mapping[str, Row]],
    cases: Iterable[CaseName],
) -> dict[str, tuple[CaseName, ...]]:
    """Return by metric the cases that have it in the run before alone."""
    removed: dict[str, tuple[CaseName, ...]] = {}
    for case in cases:
        for metric in before[case]:
            if metric not in after[case]:
                removed[metric] = (*removed.get(metric, ()), case)
    return removed


def _count_equal(old: Mapping[str, Row], new: Mapping[str, Row]) -> tuple[int, int]:
    """Return how many exact values are equal, and how many were measured in both."""
    equal = timed = 0
    for metric in old.keys() & new.keys():
        before, after = old[metric].values[metric], new[metric].values[metric]
        if before.value is None or after.value is None:
            continue
        if has_exact_numbers(metric, before, after):
            equal += is_same(before, after)
        else:
            timed += 1
    return equal, timed
