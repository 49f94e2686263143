"""The data of the page of a store, as plain values that JSON holds: columns of rows, metrics and histories.

Columns of texts are packed, and a metric that never moved is one number in a history, so that thousands of models stay
a small file. Texts go through `profilerkit_audits.hiding` unless the page is private.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from profilerkit.errors import StoreError
from profilerkit.foreign_text import visible
from profilerkit.piping.comparative import Comparative
from profilerkit.piping.outcome import Completeness
from profilerkit.piping.quantity import Scale, scale_value, write_title
from profilerkit.results.report import Report, StatusRecord
from profilerkit.trace.bounds import Sign
from profilerkit_pages.page_parts import pack

from ..commits import shorten_commit
from ..hiding import hide_text
from ..moments import shorten_moment
from ..rows import Row, Value
from ..summary import find_differing_settings
from .subjects import Subject

__all__ = ["make_page_data"]

Text = Callable[[str], str]

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
    context = _Context(machines, private)
    newest = [subject.newest for subject in subjects]
    rows = [row for subject in subjects for row in subject.rows]
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    # Of any row: a failed value may have no unit.
    units = {name: value.unit for row in rows for name, value in row.values.items() if value.unit}
    records = _find_records(names, subjects, find_report)
    columns = _list_columns(newest, context)
    histories = {
        number: _describe_history(subject.rows, context)
        for number, subject in enumerate(subjects)
        if len(subject.rows) > 1
    }
    return {
        "ids": [subject.id for subject in subjects],
        "columns": columns,
        "metrics": [
            _describe_metric(name, units.get(name, ""), newest, records.get(name), context.text) for name in names
        ],
        "histories": histories,
        "versions": [json.loads(text) for text in context.versions],  # last: columns and histories number them
    }


class _Context:
    """How texts are shown, and the versions of rows, each once on the page."""

    def __init__(self, machines: Mapping[str, Mapping[str, str]], private: bool) -> None:
        def show(text: str) -> str:
            line = " ".join(text.split())
            return visible(line if private else hide_text(line))

        self.text = lru_cache(maxsize=None)(show)
        self.machines = {machine: self.text(_describe_machine(facts)) for machine, facts in machines.items()}
        #: The versions of rows as JSON, each with its number.
        self.versions: dict[str, int] = {}

    def number_versions(self, row: Row) -> int:
        """Return the number of the versions of a row, equal for equal versions."""
        return self.versions.setdefault(json.dumps(row.versions, sort_keys=True), len(self.versions))


def _list_columns(rows: Sequence[Row], context: _Context) -> dict[str, Any]:
    """Return the columns of the table beside the metrics."""
    by_spec: dict[str, list[Row]] = {}
    for row in rows:
        by_spec.setdefault(row.spec, []).append(row)
    of_model = {spec: find_differing_settings(several) for spec, several in by_spec.items()}
    of_all, text = find_differing_settings(rows), context.text
    texts: dict[str, list[Any]] = {
        "spec": [text(row.spec) for row in rows],
        "name": [text(row.name) for row in rows],
        "backend": [text(row.backend) for row in rows],
        "status": [row.status.value for row in rows],
        "failure": [row.failure or "" for row in rows],
        "reason": [text(row.reason) for row in rows],
        "flags": [text("; ".join(row.flags)) for row in rows],
        "settings": [text(_describe_settings(row.settings, row.settings)) for row in rows],
        "differing": [text(_describe_settings(row.settings, of_all)) for row in rows],
        # The settings that differ between the rows of one model.
        "apart": [text(_describe_settings(row.settings, of_model[row.spec])) for row in rows],
        "model_type": [text(row.model_type) for row in rows],
        "commit": [text(shorten_commit(row.commit)) for row in rows],
        "created": [shorten_moment(row.created) for row in rows],
        "machine": [context.machines.get(row.machine) or row.machine[:8] for row in rows],
        "versions": [context.number_versions(row) for row in rows],
    }
    return {
        **{name: pack(values) for name, values in texts.items()},
        "seconds": [row.seconds for row in rows],
        "peak_bytes": [row.peak_bytes for row in rows],
        "busy": [row.conditions.get("busy") for row in rows],
    }


def _describe_history(rows: Sequence[Row], context: _Context) -> dict[str, Any]:
    """Return every measurement of a subject, column by column.

    The values of a metric that never moved are one number. ``signs`` has by metric and row the signs of bounds.
    """
    values: dict[str, Any] = {}
    signs: dict[str, dict[int, Sign]] = {}
    for name in dict.fromkeys(name for row in rows for name in row.values):
        measured = [row.values.get(name) for row in rows]
        numbers = [None if value is None else value.value for value in measured]
        values[name] = numbers[0] if len(set(numbers)) == 1 else numbers
        bounds = {number: value.sign for number, value in enumerate(measured) if value is not None and value.sign}
        if bounds:
            signs[name] = bounds
    return {
        "at": [shorten_moment(row.created) for row in rows],
        "status": [row.status.value for row in rows],
        "commit": [context.text(shorten_commit(row.commit)) for row in rows],
        "versions": [context.number_versions(row) for row in rows],
        "code": _number_alike([row.code for row in rows]),
        "machine": _number_alike([row.machine for row in rows]),
        "values": values,
        "signs": signs,
    }


def _number_alike(values: Sequence[str]) -> list[int]:
    """Return a number for each text, equal for equal texts: the page shows whether they differ, not the texts."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _describe_settings(settings: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return some settings in a line.

    >>> _describe_settings({"batch_size": 8, "input_shape": [3, 4], "autocast": True}, ["input_shape", "autocast"])
    'input_shape [3, 4], autocast true'
    """
    shown = {name: settings[name] for name in names if name in settings}
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in shown.items()
    )


def _describe_machine(facts: Mapping[str, str]) -> str:
    """Return a machine as text for people, without repeated facts, and without the host and the user."""
    left_out = {"host", "user"}
    if facts.get("usable_cores") == facts.get("cores"):
        left_out.add("usable_cores")
    return ", ".join(_write_fact(name, value) for name, value in facts.items() if name not in left_out)


def _write_fact(name: str, value: str) -> str:
    if name == "memory_bytes" and value.isdecimal():
        return f"{scale_value(int(value), 'B', Scale.IEC)} of memory"
    words = {
        **dict.fromkeys(("system", "architecture", "cpu"), value),
        "cores": f"{value} core" if value == "1" else f"{value} cores",
        "usable_cores": f"{value} of them usable",
    }
    return words.get(name, f"{name} {value}")


def _find_records(
    names: Iterable[str], subjects: Iterable[Subject], find_report: Callable[[Row], Report | None]
) -> dict[str, StatusRecord]:
    """Return a report's record of each metric, by name: the record says how the metric is scaled and compared.

    Reports are read until there is a record of each metric; a damaged report is skipped. The reports are from the
    measured rows: a row joined from several rows names one report, which lacks metrics of the other rows.
    """
    records: dict[str, StatusRecord] = {}
    missing = set(names)
    for row in (row for subject in subjects for row in reversed(subject.measured)):
        if any(name in row.values and row.values[name].value is not None for name in missing):
            with suppress(StoreError):
                report = find_report(row)
                statuses = {} if report is None else report.statuses
                records |= {name: statuses[name] for name in missing & statuses.keys()}
                missing -= records.keys()
    return records


def _describe_metric(
    name: str, unit: str, rows: Sequence[Row], record: StatusRecord | None, text: Text
) -> dict[str, Any]:
    """Return a metric with its value in each row, and the notes on values that are not complete.

    ``record`` is a record of the metric from any report; None if there is none.
    """
    values = [row.values.get(name) for row in rows]
    present = {number: value for number, value in enumerate(values) if value is not None}
    scale = _SCALES.get(unit, Scale.SI) if record is None else record.scale
    return {
        "name": name,
        "title": write_title(name),
        "unit": text(unit),
        "scale": scale.value,
        "more": record is not None and record.comparative in (Comparative.DIFF, Comparative.DIV),
        "values": [None if value is None else value.value for value in values],
        "incomplete": {number: note for number, value in present.items() if (note := _explain_gap(value, text))},
        "signed": {number: [value.sign, value.value] for number, value in present.items() if value.sign},
        "intervals": {number: [value.low, value.high] for number, value in present.items() if value.is_measured},
    }


def _explain_gap(value: Value, text: Text) -> list[str]:
    """Return the state of a value that is not complete, and why; nothing for a complete value."""
    if value.completeness is Completeness.COMPLETE:
        return []
    return [value.completeness.value if value.is_applicable else "does not apply", text(value.reason)]
