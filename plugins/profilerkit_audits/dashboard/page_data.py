"""The data of the page of a store, as plain values that JSON holds: columns of rows, metrics and histories.

Columns of texts are packed, and a metric that never moved is one number in a history, so that thousands of models stay
a small file. Texts go through `profilerkit_audits.hiding` unless the page is private.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeAlias

from profilerkit.errors import StoreError
from profilerkit.foreign_text import visible
from profilerkit.piping.comparative import Comparative
from profilerkit.piping.outcome import Completeness
from profilerkit.piping.quantity import Scale
from profilerkit.piping.titles import write_title
from profilerkit.results.report import Report, StatusRecord
from profilerkit_pages.page_parts import pack

from ..hiding import hide_text
from ..machines import describe_machine
from ..origins import shorten_commit, shorten_moment
from ..rows import Row, Value
from ..summary import find_differing_settings
from .subjects import Subject

#: Writes a text as the page shows it.
Writer: TypeAlias = Callable[[str], str]

#: The scales of metrics by their unit, if no report states them.
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
    write = _make_writer(private)
    newest = [subject.newest for subject in subjects]
    rows = [row for subject in subjects for row in subject.rows]
    versions = _number_alike(map(_join_versions, rows))
    records = _find_records(subjects, find_report)
    # The unit is that of any row: a failed value may have none.
    units = {name: value.unit for row in rows for name, value in row.values.items() if value.unit}
    metrics = dict.fromkeys(name for row in rows for name in row.values)
    return {
        "ids": [subject.id for subject in subjects],
        "columns": _list_columns(newest, machines, versions, write),
        "metrics": [
            _describe_metric(name, [row.values.get(name) for row in newest], units.get(name, ""), records, write)
            for name in metrics
        ],
        "histories": {
            number: _describe_history(subject.rows, versions, write)
            for number, subject in enumerate(subjects)
            if len(subject.rows) > 1
        },
        "versions": list(map(json.loads, versions)),
    }


def _make_writer(private: bool) -> Writer:
    """Return a function that writes a text in a line, without what is private unless the page is."""

    def write(text: str) -> str:
        line = " ".join(text.split())
        return visible(line if private else hide_text(line))

    return cache(write)


def _join_versions(row: Row) -> str:
    return json.dumps(row.versions, sort_keys=True)


def _number_alike(texts: Iterable[str]) -> dict[str, int]:
    """Return a number for each different text, from 0: the page compares numbers, and has each text once, or never."""
    return {text: number for number, text in enumerate(dict.fromkeys(texts))}


# Rows -----------------------------------------------------------------------------------------------------------------


def _list_columns(
    rows: Sequence[Row], machines: Mapping[str, Mapping[str, str]], versions: Mapping[str, int], write: Writer
) -> dict[str, Any]:
    """Return the columns of the table beside the metrics; ``versions`` has the number of each row's versions."""
    differing = find_differing_settings(rows)
    names = {machine: write(describe_machine(facts)) for machine, facts in machines.items()}
    columns: dict[str, list[Any]] = {
        **{name: [write(getattr(row, name)) for row in rows] for name in ("spec", "name", "backend", "reason")},
        "status": [row.status.value for row in rows],
        "failure": [row.failure or "" for row in rows],
        "flags": [write("; ".join(row.flags)) for row in rows],
        "settings": [write(_describe_settings(row.settings, row.settings)) for row in rows],
        "differing": [write(_describe_settings(row.settings, differing)) for row in rows],
        "model_type": [write(row.model_type) for row in rows],
        "commit": [write(shorten_commit(row.commit)) for row in rows],
        "created": [shorten_moment(row.created) for row in rows],
        "machine": [names.get(row.machine) or row.machine[:8] for row in rows],
        "versions": [versions[_join_versions(row)] for row in rows],
        **{name: [getattr(row, name) for row in rows] for name in ("seconds", "peak_bytes")},
    }
    return {name: pack(values) for name, values in columns.items()}


def _describe_settings(settings: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return some settings in a line.

    >>> _describe_settings({"batch_size": 8, "input_shape": [3, 4], "autocast": True}, ["input_shape", "autocast"])
    'input_shape [3, 4], autocast true'
    """
    shown = {name: settings[name] for name in names if name in settings}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in shown.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items())


# Histories ------------------------------------------------------------------------------------------------------------


def _describe_history(rows: Sequence[Row], versions: Mapping[str, int], write: Writer) -> dict[str, Any]:
    """Return every measurement of a subject, column by column.

    ``values`` and ``signs`` are by metric: what never moved is one number, and of signs only those of bounds are there,
    by the numbers of their rows.
    """
    codes, machines = (_number_alike(getattr(row, name) for row in rows) for name in ("code", "machine"))
    metrics = dict.fromkeys(name for row in rows for name in row.values)
    values = {name: [row.values.get(name) for row in rows] for name in metrics}
    signs = {
        name: {number: value.sign for number, value in enumerate(several) if value is not None and value.sign}
        for name, several in values.items()
    }
    return {
        "at": [shorten_moment(row.created) for row in rows],
        "status": [row.status.value for row in rows],
        "commit": [write(shorten_commit(row.commit)) for row in rows],
        "versions": [versions[_join_versions(row)] for row in rows],
        "code": [codes[row.code] for row in rows],
        "machine": [machines[row.machine] for row in rows],
        "values": {name: _list_numbers(several) for name, several in values.items()},
        "signs": {name: by_row for name, by_row in signs.items() if by_row},
    }


def _list_numbers(values: Sequence[Value | None]) -> Any:
    """Return the numbers of a metric, None for a missing one; one number if all are equal."""
    numbers = [None if value is None else value.value for value in values]
    return numbers[0] if len(set(numbers)) == 1 else numbers


# Metrics --------------------------------------------------------------------------------------------------------------


def _find_records(subjects: Sequence[Subject], find_report: Callable[[Row], Report | None]) -> dict[str, StatusRecord]:
    """Return a report's record of each metric, by name: the record says how the metric is scaled and compared.

    Reports are read until there is a record of each metric; a damaged report is skipped. The reports are from the
    measured rows: a row joined from several rows names one report, which lacks metrics of the other rows.
    """
    records: dict[str, StatusRecord] = {}
    missing = {name for subject in subjects for row in subject.rows for name in row.values}
    for row in (row for subject in subjects for row in reversed(subject.measured)):
        if any(name in row.values and row.values[name].value is not None for name in missing):
            with suppress(StoreError):
                report = find_report(row)
                statuses = {} if report is None else report.statuses
                records |= {name: statuses[name] for name in missing & statuses.keys()}
                missing -= records.keys()
    return records


def _describe_metric(
    name: str, values: Sequence[Value | None], unit: str, records: Mapping[str, StatusRecord], write: Writer
) -> dict[str, Any]:
    """Return a metric with its value in each row, and by the number of the row what is not complete or measured."""
    record = records.get(name)
    present = [(number, value) for number, value in enumerate(values) if value is not None]
    incomplete = [(number, value) for number, value in present if value.completeness is not Completeness.COMPLETE]
    scale = _SCALES.get(unit, Scale.SI) if record is None else record.scale
    return {
        "name": name,
        "title": write_title(name),
        "unit": write(unit),
        "scale": scale.value,
        "more": record is not None and record.comparative in (Comparative.DIFF, Comparative.DIV),
        "values": [None if value is None else value.value for value in values],
        "incomplete": {number: [_name_state(value), write(value.reason)] for number, value in incomplete},
        "signed": {number: [value.sign, value.value] for number, value in present if value.sign},
        "intervals": {number: [value.low, value.high] for number, value in present if value.is_measured},
    }


def _name_state(value: Value) -> str:
    return value.completeness.value if value.is_applicable else "does not apply"
