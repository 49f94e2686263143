"""A report as values that JSON can hold, and back; reading checks every field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..error_text import shown
from ..piping.outcome import Completeness
from ..trace.bounds import Bounds, Sign
from ..trace.records import MemoryTimeline
from ..trace.table import Table
from .column_kinds import LAYER_COLUMNS, OPERATOR_COLUMNS
from .json_values import convert, from_plain, to_plain, write_fields
from .report import Report, StatusRecord

__all__ = ["read_report", "write_report"]


def write_report(report: Report) -> dict[str, Any]:
    """Return a report as values that JSON can hold: its fields, the records of its metrics as a list."""
    return write_fields(
        report,
        statuses=[_write_record(record) for record in report.statuses.values()],
        data={key: to_plain(value) for key, value in report.data.items()},
        memory=None if report.memory is None else write_fields(report.memory),
        layers=to_plain(report.layers),
        operators=to_plain(report.operators),
    )


def _write_record(record: StatusRecord) -> dict[str, Any]:
    """Return the fields of a record, with the two ends of any number in place of the bounds of a partial one.

    A mapping, a table or a measurement has no ends to write: without these fields it is a lower bound.
    """
    ends = record.ends or Bounds()
    written = write_fields(record, value=to_plain(record.value))
    del written["bounds"]
    if record.sign is Sign.LOWER and record.ends is None:
        return written
    return {**written, "low": to_plain(ends.low), "high": to_plain(ends.high)}


def read_report(body: Any, where: str = "") -> Report:
    """Return the report that `write_report` wrote; raises `ValueError` with the field, behind ``where``, for others."""
    fields = convert(body, dict[str, Any], where.removesuffix("."))
    statuses = convert(fields.get("statuses"), list[dict[str, Any]], f"{where}statuses")
    records = [_read_record(status, f"{where}statuses[{index}]") for index, status in enumerate(statuses)]
    data = convert(fields.get("data"), dict[str, Any], f"{where}data")
    parts = {
        "statuses": {record.key: record for record in records},
        "data": {key: from_plain(value, f"{where}data.{key}") for key, value in data.items()},
        "layers": from_plain(fields.get("layers"), f"{where}layers"),
        "operators": from_plain(fields.get("operators"), f"{where}operators"),
    }
    if fields.get("memory") is not None:
        parts["memory"] = convert(fields["memory"], MemoryTimeline, f"{where}memory")
    report = convert({**fields, **parts}, Report, where.removesuffix("."))
    _require_columns(report.layers, LAYER_COLUMNS, f"{where}layers")
    _require_columns(report.operators, OPERATOR_COLUMNS, f"{where}operators")
    return report


def _require_columns(table: Table | None, names: Iterable[str], where: str) -> None:
    """Raise `ValueError` if a table lacks a column; one without rows has no columns, and lacks none."""
    missing = [name for name in names if table and name not in table.columns]
    if missing:
        raise ValueError(f"{where}.columns has no {missing[0]!r}")


def _read_record(plain: dict[str, Any], where: str) -> StatusRecord:
    """Return the record of a metric; raises `ValueError` if its value does not fit its completeness or its bounds."""
    low, high = (_read_end(plain, name, where) for name in ("low", "high"))
    fields = {name: value for name, value in plain.items() if name not in ("low", "high")}
    record = convert({**fields, "value": from_plain(plain.get("value"), f"{where}.value")}, StatusRecord, where)
    needs_value = record.completeness in (Completeness.COMPLETE, Completeness.PARTIAL)
    has_value = record.value is not None
    if has_value != needs_value:
        raise ValueError(f"{where}.value is {record.value!r:.60} where completeness is {record.completeness.value}")
    if not record.is_applicable and record.completeness is not Completeness.UNAVAILABLE:
        raise ValueError(f"{where}.is_applicable is false where completeness is {record.completeness.value}")
    is_bounded = record.completeness is Completeness.PARTIAL and "low" in plain
    return replace(record, bounds=_join_ends(record.value, low, high, where)) if is_bounded else record


def _read_end(plain: Mapping[str, Any], name: str, where: str) -> float | None:
    end = from_plain(plain.get(name), f"{where}.{name}")
    if end is not None and type(end) not in (int, float):
        raise ValueError(f"{where}.{name} is {shown(end)}, no number")
    number: float | None = end
    return number


def _join_ends(value: Any, low: float | None, high: float | None, where: str) -> Bounds | None:
    """Return the two ends of a partial value; None for a plain lower bound."""
    if low is not None and low == value and high is None:
        return None
    if (low is not None and low > value) or (high is not None and high < value):
        raise ValueError(f"{where} has the value {shown(value)}, which is not between low and high")
    return Bounds(low, high)
