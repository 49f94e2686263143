"""What moved between two runs of a store: counts that changed with their layers, cases that came and went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from ..render.grids import Grid
from .changes import Change, changes_between
from .rows import Row
from .series import Case, is_exact, run_named
from .store import Run, Store

__all__ = ["RunDiff", "change_grid", "diff_runs"]


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
    removed: tuple[Case, ...] = ()
    added: tuple[Case, ...] = ()

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
    if not isinstance(store, Store):
        with Store.open(store, create=False) as opened:
            return diff_runs(opened, old, new)
    before, after = run_named(store, old), run_named(store, new)
    mine, theirs = _cases(store, before), _cases(store, after)
    changes: list[Change] = []
    same = timed = 0
    for case in (case for case in theirs if case in mine):
        changes += changes_between(mine[case], theirs[case], store)
        equal, measured = _counted(mine[case], theirs[case])
        same, timed = same + equal, timed + measured
    removed = tuple(case for case in mine if case not in theirs)
    added = tuple(case for case in theirs if case not in mine)
    return RunDiff(before, after, tuple(changes), same, timed, removed, added)


def _cases(store: Store, run: Run) -> Mapping[Case, Row]:
    return {Case.of(row): row for row in store.rows(run=run.run)}


def _counted(old: Row, new: Row) -> tuple[int, int]:
    """Return how many exact values are equal, and how many were measured in both."""
    equal = measured = 0
    for metric, value in new.values.items():
        before = old.values.get(metric)
        if before is None or before.value is None or value.value is None:
            continue
        if not (is_exact(metric, value) and is_exact(metric, before)):
            measured += 1
        else:
            equal += before.value == value.value and before.completeness is value.completeness
    return equal, measured


def change_grid(changes: tuple[Change, ...], title: str) -> Grid:
    """Return changes as a table."""
    rows = [
        (str(each.case), each.metric, each.verdict, each.shown(), "; ".join(each.layers), "; ".join(each.causes))
        for each in changes
    ]
    return Grid(title, ("Model", "Metric", "", "Value", "Layers", "What else changed"), tuple(rows))
