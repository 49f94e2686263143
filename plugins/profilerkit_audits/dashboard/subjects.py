"""The subjects of a store: each model with one setting, with every row of it from the oldest to the newest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import lru_cache

from ..rows import Row
from ..series import group_by_case, join_rows

__all__ = ["Subject", "group_rows"]


@dataclass(frozen=True)
class Subject:
    """One model with one setting; of times on one kind of machine, since others are not compared.

    Args:
        id: A digest by which links to the page name it: it stays when versions or the model's code change.
        rows: Its rows, the oldest first.
    """

    id: str
    rows: tuple[Row, ...]

    @property
    def newest(self) -> Row:
        """The row that the table shows."""
        return self.rows[-1]


def group_rows(
    rows: Iterable[Row], list_members: Callable[[str], Container[int | None]] = lambda run: (), run: str = ""
) -> list[Subject]:
    """Return the subjects of rows, in the order in which each was first measured.

    Rows of a subject that one run measured are one row. The newest one has also what that run reused.

    Args:
        rows: Rows of a store.
        list_members: Returns the numbers of the rows that a run consists of; by default no run reuses any.
        run: Only the subjects of this run, up to it.
    """
    members_by_run = lru_cache(maxsize=None)(list_members)
    subjects = []
    for case, series in group_by_case(rows).items():
        is_measured = any(value.is_measured for row in series for value in row.values.values())
        for machine in dict.fromkeys(row.machine for row in series) if is_measured else ("",):
            measured = [row for row in series if machine in ("", row.machine)]
            members = members_by_run(run or measured[-1].run)
            current = [row for row in measured if row.id in members]
            if run:
                measured = measured[: measured.index(current[-1]) + 1] if current else []
            if measured:
                digest = hashlib.sha256(f"{case.spec}{case.settings}{machine}".encode()).hexdigest()[:12]
                points = _join_runs(measured)
                newest = join_rows(current) if current else points[-1]
                subjects.append(Subject(digest, (*points[:-1], newest)))
    return subjects


def _join_runs(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each run; one that was measured again in the same run stays a row of its own."""
    runs: list[dict[str, Row]] = []
    for row in rows:
        if not runs or row.key in runs[-1] or row.run != next(iter(runs[-1].values())).run:
            runs.append({})
        runs[-1][row.key] = row
    return [join_rows(list(several.values())) for several in runs]
