"""A report as values that JSON can hold, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..piping.outcome import Completeness
from ..trace.bounds import Bounds, Sign
from ..trace.records import MemoryTimeline
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
    return convert({**fields, **parts}, Report, where.removesuffix("."))


def _read_record(plain: dict[str, Any], where: str) -> StatusRecord:
    """Return the record of a metric, with the bounds of a partial value."""
    low, high = (convert(from_plain(plain.get(name)), float | None, f"{where}.{name}") for name in ("low", "high"))
    value = from_plain(plain.get("value"), f"{where}.value")
    record = convert({**plain, "value": value}, StatusRecord, where)
    is_lower_bound = (low, high) == (record.value, None)
    is_bounded = record.completeness is Completeness.PARTIAL and "low" in plain and not is_lower_bound
    return replace(record, bounds=Bounds(low, high)) if is_bounded else record
