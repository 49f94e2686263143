"""The subjects of a store: each model with one setting, with every row of it from the oldest to the newest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from ..rows import Row
from ..series import group_by_case

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


def group_rows(rows: Iterable[Row]) -> list[Subject]:
    """Return the subjects of rows, in the order in which each was first measured."""
    subjects = []
    for case, series in group_by_case(rows).items():
        is_measured = any(value.is_measured for row in series for value in row.values.values())
        for machine in dict.fromkeys(row.machine for row in series) if is_measured else ("",):
            chosen = tuple(row for row in series if machine in ("", row.machine))
            digest = hashlib.sha256(f"{case.spec}{case.settings}{machine}".encode()).hexdigest()[:12]
            subjects.append(Subject(digest, chosen))
    return subjects
