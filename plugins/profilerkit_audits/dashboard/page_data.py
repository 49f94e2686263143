"""What the page of a store shows, as plain values that JSON holds: columns of rows, metrics and histories.

Columns of texts are packed, and a metric that never moved is one number in a history, so that thousands of models stay
a small file. Texts go through `profilerkit_audits.hiding` unless the page is private.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from profilerkit.errors import StoreError
from profilerkit.foreign_text import visible
from profilerkit.piping.comparative import Comparative
from profilerkit.piping.outcome import Completeness
from profilerkit.piping.quantity import Scale, scale_value, write_title
from profilerkit.results.report import Report
from profilerkit_pages.page_parts import pack

from ..hiding import hide_text
from ..machines import shorten_commit, shorten_moment
from ..rows import Row
from ..series import group_by_case, join_rows
from ..summary import find_differing_settings

__all__ = ["Subject", "group_rows", "make_page_data"]

Text = Callable[[str], str]

#: The scales of metrics by their unit, where no report tells them.
_SCALES = {"B": Scale.IEC, "s": Scale.TIME, "%": Scale.NONE}


def make_page_data(
    subjects: Sequence[Subject],
    machines: Mapping[str, Mapping[str, str]],
    private: bool,
    find_report: Callable[[Row], Report | None] = lambda row: None,
) -> dict[str, Any]:
    """Return the content of the page; ``subjects`` are its rows, in their order.

    ``find_report`` returns the report of a row, which says which values of a metric are better.
    """
    context = _Context(machines, private)
    newest = [subject.newest for subject in subjects]
    metrics = dict.fromkeys(name for subject in subjects for row in subject.rows for name in row.values)
    columns = {name: pack([read(row) for row in newest]) for name, read in context.readers().items()}
    differing = find_differing_settings(newest)
    columns["differing"] = pack(
        [
            context.text(_describe_settings({name: row.settings[name] for name in differing if name in row.settings}))
            for row in newest
        ]
    )
    columns["seconds"] = [row.seconds for row in newest]
    columns["peak_bytes"] = [row.peak_bytes for row in newest]
    columns["busy"] = [row.conditions.get("busy") for row in newest]
    histories = {
        number: context.describe_history(subject) for number, subject in enumerate(subjects) if len(subject.rows) > 1
    }
    return {
        "ids": [subject.id for subject in subjects],
        "columns": columns,
        "metrics": [_describe_metric(name, newest, find_report, context.text) for name in metrics],
        "histories": histories,
        "versions": [json.loads(text) for text in context.versions],  # last: columns and histories number them
    }


class _Context:
    """What rows refer to: machines and versions, each once on the page; and how their texts are shown."""

    def __init__(self, machines: Mapping[str, Mapping[str, str]], private: bool) -> None:
        def show(text: str) -> str:
            line = " ".join(text.split())
            return visible(line if private else hide_text(line))

        self.text = lru_cache(maxsize=None)(show)
        self.machines = {machine: self.text(_describe_machine(facts)) for machine, facts in machines.items()}
        #: The versions of rows as JSON, each with its number.
        self.versions: dict[str, int] = {}

    def readers(self) -> dict[str, Callable[[Row], Any]]:
        """Return for each packed column, most of them texts, the function that reads it from a row."""
        text = self.text
        return {
            "spec": lambda row: text(row.spec),
            "name": lambda row: text(row.name),
            "backend": lambda row: text(row.backend),
            "status": lambda row: row.status.value,
            "failure": lambda row: row.failure or "",
            "reason": lambda row: text(row.reason),
            "flags": lambda row: text("; ".join(row.flags)),
            "settings": lambda row: text(_describe_settings(row.settings)),
            "model_type": lambda row: text(row.model_type),
            "commit": lambda row: text(shorten_commit(row.commit)),
            "created": lambda row: shorten_moment(row.created),
            "machine": lambda row: self.machines.get(row.machine) or row.machine[:8],
            "versions": self.number_versions,
        }

    def number_versions(self, row: Row) -> int:
        """Return the number of the versions of a row, equal for equal ones."""
        return self.versions.setdefault(json.dumps(row.versions, sort_keys=True), len(self.versions))

    def describe_history(self, subject: Subject) -> dict[str, Any]:
        """Return every measurement of a subject, column by column."""
        rows = subject.rows
        return {
            "at": [shorten_moment(row.created) for row in rows],
            "status": [row.status.value for row in rows],
            "commit": [self.text(shorten_commit(row.commit)) for row in rows],
            "versions": [self.number_versions(row) for row in rows],
            "code": _number_alike([row.code for row in rows]),
            "machine": _number_alike([row.machine for row in rows]),
            "values": _list_values(subject),
        }


def _describe_settings(settings: Mapping[str, Any]) -> str:
    """Return the point of a matrix in a line.

    >>> _describe_settings({"batch_size": 8, "input_shape": [3, 4], "autocast": True})
    'batch_size 8, input_shape [3, 4], autocast true'
    """
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in settings.items()
    )


def _describe_machine(facts: Mapping[str, str]) -> str:
    """Return a machine as people write it, without a fact that repeats another, and without whose it is."""
    words = []
    for name, value in facts.items():
        if name in ("host", "user") or (name == "usable_cores" and value == facts.get("cores")):
            continue
        if name == "memory_bytes" and value.isdecimal():
            words.append(f"{scale_value(int(value), 'B', Scale.IEC)} of memory")
        elif name == "cores":
            words.append(f"{value} core" if value == "1" else f"{value} cores")
        elif name == "usable_cores":
            words.append(f"{value} of them usable")
        elif name in ("system", "architecture", "cpu"):
            words.append(value)
        else:
            words.append(f"{name} {value}")
    return ", ".join(words)


def _find_kind(
    name: str, rows: Sequence[Row], find_report: Callable[[Row], Report | None]
) -> tuple[Scale | None, Comparative]:
    """Return how a metric is scaled and compared, as the report of the first row with a value has it."""
    row = next((row for row in rows if name in row.values and row.values[name].value is not None), None)
    report = None
    with suppress(StoreError):  # of a report that is damaged
        report = None if row is None else find_report(row)
    if report is None or name not in report.statuses:
        return None, Comparative.NONE
    record = report.statuses[name]
    return record.scale, record.comparative


def _describe_metric(
    name: str, rows: Sequence[Row], find_report: Callable[[Row], Report | None], text: Text
) -> dict[str, Any]:
    """Return a metric with its value in each row, and what is said of values that are not complete."""
    scale, comparative = _find_kind(name, rows, find_report)
    values = [row.values.get(name) for row in rows]
    present = {number: value for number, value in enumerate(values) if value is not None}
    unit = next((value.unit for value in present.values() if value.unit), "")
    content: dict[str, Any] = {
        "name": name,
        "title": write_title(name),
        "unit": text(unit),
        "scale": (scale or _SCALES.get(unit, Scale.SI)).value,
        "more": comparative in (Comparative.DIFF, Comparative.DIV),
        "values": [None if value is None else value.value for value in values],
        "incomplete": {
            number: [value.completeness.value if value.is_applicable else "does not apply", text(value.reason)]
            for number, value in present.items()
            if value.completeness is not Completeness.COMPLETE
        },
        "signed": {number: [value.sign, value.value] for number, value in present.items() if value.sign},
    }
    if any(value.is_measured for value in present.values()):
        content["intervals"] = [
            [value.low, value.high] if value is not None and value.is_measured else None for value in values
        ]
    return content


def _number_alike(values: Sequence[str]) -> list[int]:
    """Return a number for each text, equal for equal ones: the page says whether they differ, and not what they are."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _list_values(subject: Subject) -> dict[str, Any]:
    """Return the values of each metric, row by row; one number for a metric that never moved."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in subject.rows for name in row.values):
        values = [row.values[name].value if name in row.values else None for row in subject.rows]
        columns[name] = values[0] if len(set(values)) == 1 else values
    return columns


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
        list_members: Returns the ids of the rows that a run consists of, measured or reused; by default none.
        run: Only the subjects of this run, without what was measured after it; "" for all.
    """
    members_by_run = lru_cache(maxsize=None)(list_members)
    subjects = []
    for case, series in group_by_case(rows).items():
        for machine, measured in _split_by_machine(series).items():
            members = members_by_run(run or measured[-1].run)
            current = [row for row in measured if row.id in members]
            if run:  # without what was measured later; without anything if the run has no row of the subject
                measured = measured[: measured.index(current[-1]) + 1] if current else []
            points = _join_runs(measured)
            if current:
                points[-1] = join_rows(current)  # the last point, with what its run reused
            if points:
                digest = hashlib.sha256(f"{case.spec}{case.settings}{machine}".encode()).hexdigest()[:12]
                subjects.append(Subject(digest, tuple(points)))
    return subjects


def _split_by_machine(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of a case by their machine. Without times all are equal wherever they ran, and are under ""."""
    if not any(value.is_measured for row in rows for value in row.values.values()):
        return {"": list(rows)}
    by_machine: dict[str, list[Row]] = {}
    for row in rows:
        by_machine.setdefault(row.machine, []).append(row)
    return by_machine


def _join_runs(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each run, made of those that measure different metrics; a further attempt has its own."""
    groups: list[list[Row]] = []
    for row in rows:
        group = groups[-1] if groups else []
        is_of_same_run = any(earlier.run == row.run for earlier in group)
        is_attempted_again = any(earlier.key == row.key for earlier in group)
        if is_of_same_run and not is_attempted_again:
            group.append(row)
        else:
            groups.append([row])
    return [join_rows(group) for group in groups]
