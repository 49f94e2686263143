"""What moved between two runs of a store: counts that changed with their layers, cases that came and went."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

from .changes import Change, compare_rows
from .rows import Row
from .series import CaseName, find_run, group_by_case, is_exact, join_rows, open_store
from .store import Run, Store

__all__ = ["RunDiff", "diff_runs"]


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
    """

    old: Run
    new: Run
    changes: tuple[Change, ...] = ()
    same: int = 0
    timed: int = 0
    removed: tuple[CaseName, ...] = ()
    added: tuple[CaseName, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as values that JSON holds."""
        runs = {name: {"run": run.run, "started": run.started} for name, run in (("old", self.old), ("new", self.new))}
        cases = {name: [str(case) for case in getattr(self, name)] for name in ("removed", "added")}
        changes = [change.to_dict() for change in self.changes]
        return {**runs, "changes": changes, "same": self.same, "timed": self.timed, **cases}

    def summary(self) -> str:
        """Return in a sentence how much moved."""
        models = len({change.case for change in self.changes})
        parts = [f"{len(self.changes)} values of {models} cases moved", f"{self.same} are equal"]
        parts += [f"{self.timed} times are not compared: 'profilerkit regressions' compares them"] if self.timed else []
        for name, cases in (("before", self.removed), ("after", self.added)):
            parts += [f"only {name}: {', '.join(map(str, cases))}"] if cases else []
        return "; ".join(parts)


def diff_runs(store: Store | str | PathLike[str], old: str, new: str) -> RunDiff:
    """Return what moved between two runs: every exact value that both have, and values that appeared or were lost.

    Args:
        store: A store, or its URL or path.
        old: The run before: its identifier, the beginning of it, or ``last~1``.
        new: The run after.

    Raises `ArgumentError` for a run that the store has not.
    """
    with open_store(store) as opened:
        runs = find_run(opened, old), find_run(opened, new)
        before, after = (_read_cases(opened, run) for run in runs)
        both = [case for case in after if case in before]
        changes = [change for case in both for change in compare_rows(before[case], after[case], opened)]
    counted = [_count_equal(before[case], after[case]) for case in both]
    return RunDiff(
        *runs,
        changes=tuple(changes),
        same=sum(equal for equal, _ in counted),
        timed=sum(timed for _, timed in counted),
        removed=tuple(case for case in before if case not in after),
        added=tuple(case for case in after if case not in before),
    )


def _read_cases(store: Store, run: Run) -> dict[CaseName, Row]:
    """Return the row of each case of a run, those of a case that several entries of a plan measure as one."""
    return {case: join_rows(rows) for case, rows in group_by_case(store.rows(run=run.run)).items()}


def _count_equal(old: Row, new: Row) -> tuple[int, int]:
    """Return how many exact values are equal, and how many were measured in both."""
    equal = timed = 0
    for metric, value in new.values.items():
        before = old.values.get(metric)
        if before is None or before.value is None or value.value is None:
            continue
        if is_exact(metric, value) and is_exact(metric, before):
            equal += before.value == value.value and before.completeness is value.completeness
        else:
            timed += 1
    return equal, timed
