"""The subjects of a page, of the rows of a store: one model with one setting, with a row for each run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from ..rows import Row
from ..series import CaseName, group_by_case, join_rows


@dataclass(frozen=True)
class Subject:
    """One model with one setting; if it was timed, on one kind of machine, because others are not compared.

    Args:
        id: A digest by which links to the page name it: it stays when versions or the model's code change.
        rows: Its rows, the oldest first: one for each run.
        measured: The rows of the store from which ``rows`` are joined, the oldest first. Each may have a report, with
            the metrics that it measured.
    """

    id: str
    rows: tuple[Row, ...]
    measured: tuple[Row, ...]

    @property
    def newest(self) -> Row:
        """The row that the table shows."""
        return self.rows[-1]


def group_rows(
    rows: Iterable[Row], list_members: Callable[[str], Container[int | None]] = lambda run: (), run: str = ""
) -> list[Subject]:
    """Return the subjects of rows, in the order in which each was first measured.

    Rows of a subject that one run measured are one row. The newest row also has the values that its run reused.

    Args:
        rows: Rows of a store.
        list_members: Returns the ids of the rows that a run consists of, measured or reused; by default none.
        run: Only the subjects of this run, without later rows; "" for all.
    """
    members_by_run = cache(list_members)
    made = (
        _make_subject(case, machine, measured, run, members_by_run)
        for case, series in group_by_case(rows).items()
        for machine, measured in _split_by_machine(series).items()
    )
    return [subject for subject in made if subject is not None]


def _make_subject(
    case: CaseName,
    machine: str,
    measured: list[Row],
    run: str,
    list_members: Callable[[str], Container[int | None]],
) -> Subject | None:
    """Return the subject of the rows of a case; None if the requested run has none of them."""
    members = list_members(run or measured[-1].run)
    of_run = [row for row in measured if row.id in members]  # rows that the run reused are among them
    if run and not of_run:
        return None
    if run:
        measured = measured[: measured.index(of_run[-1]) + 1]
    joined = _join_runs(measured)
    newest = join_rows(of_run) if of_run else joined[-1]
    digest = hashlib.sha256(f"{case.spec}{case.settings}{machine}".encode()).hexdigest()[:12]
    return Subject(digest, (*joined[:-1], newest), tuple(measured))


def _split_by_machine(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of a case by their machine; without times all rows are under "", equal on every machine."""
    if not any(value.is_measured for row in rows for value in row.values.values()):
        return {"": list(rows)}
    by_machine: dict[str, list[Row]] = {}
    for row in rows:
        by_machine.setdefault(row.machine, []).append(row)
    return by_machine


def _join_runs(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each run, joined from rows that measure different metrics; a further attempt is another row."""
    groups: list[list[Row]] = []
    for row in rows:
        group = groups[-1] if groups else []
        is_attempted_again = any(earlier.key == row.key for earlier in group)
        if group and group[0].run == row.run and not is_attempted_again:
            group.append(row)
        else:
            groups.append([row])
    return [join_rows(group) for group in groups]
