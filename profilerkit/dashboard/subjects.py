"""The subjects of a store: each model with one setting, with every row of it from the oldest to the newest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from ..audits.rows import Row

__all__ = ["Subject", "subjects_of"]


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


def subjects_of(rows: Iterable[Row]) -> list[Subject]:
    """Return the subjects of rows, in the order in which each first occurs."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps([row.spec, row.settings], sort_keys=True, default=str), []).append(row)
    subjects = []
    for text, group in groups.items():
        measured = any(value.measured for row in group for value in row.values.values())
        machines = dict.fromkeys(row.machine for row in group) if measured else ("",)
        for machine in machines:
            chosen = sorted((row for row in group if machine in ("", row.machine)), key=_moment)
            digest = hashlib.sha256(f"{text}{machine}".encode()).hexdigest()[:12]
            subjects.append(Subject(digest, tuple(chosen)))
    return subjects


def _moment(row: Row) -> tuple[str, int, int]:
    return row.created, row.id or 0, row.attempt
