"""A report as the values that a file of it holds, and back: every field is checked when it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from ..errors import FailureCode
from ..piping.comparative import Comparative
from ..piping.outcome import Completeness, is_number
from ..piping.quantity import Scale
from ..times.measurement import Measurement
from ..trace.bounds import Bounds
from ..trace.records import LayerTable, MemoryTimeline
from ..trace.table import Table
from .checked_tables import require_operators, require_tree
from .entries import require_once, short
from .json_values import convert, from_plain, to_plain
from .report import Report, StatusRecord

__all__ = ["read_report", "write_report"]

_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Status(msgspec.Struct, forbid_unknown_fields=True):
    """The record of a metric in a file: the fields of `StatusRecord`, with its ends in place of its bounds."""

    key: str
    friendly_name: str
    description: str
    value: Any
    shown: str
    unit: str
    base_unit: str
    scale: Scale
    comparative: Comparative
    completeness: Completeness
    missing: list[str]
    note: str
    low: Any = msgspec.UNSET
    high: Any = msgspec.UNSET
    failure: FailureCode | None = None
    is_applicable: bool = True


class _Memory(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of `MemoryTimeline`."""

    weight_bytes: _Count
    input_bytes: _Count
    live_bytes: list[_Count]
    note: str
    unsized: dict[str, _Count]
    parts: dict[str, _Count]
    left_bytes: _Count | None


class _Report(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of `Report`, in the order in which a file has them."""

    name: str
    backend: str
    model_type: str
    fingerprint: str
    batch_size: _Count | None
    inputs: str
    input_dtypes: str = ""
    arguments: dict[str, str]
    statuses: list[_Status]
    data: dict[str, Any]
    layers: dict[str, Any] | None
    operators: dict[str, Any] | None
    memory: _Memory | None
    notes: list[str]
    conditions: list[str] = []
    environment: dict[str, str]
    created: str


# Writing --------------------------------------------------------------------------------------------------------------


def write_report(report: Report) -> dict[str, Any]:
    """Return a report as values that JSON can hold."""
    return _write_fields(
        _Report,
        report,
        statuses=[_write_status(record) for record in report.statuses.values()],
        data={key: to_plain(value) for key, value in report.data.items()},
        memory=None if report.memory is None else _write_fields(_Memory, report.memory),
        layers=to_plain(report.layers),
        operators=to_plain(report.operators),
    )


def _write_status(record: StatusRecord) -> dict[str, Any]:
    ends = record.ends or Bounds()
    value, low, high = map(to_plain, (record.value, ends.low, ends.high))
    written = _write_fields(_Status, record, value=value, low=low, high=high)
    if record.failure is None:
        del written["failure"]
    if record.is_applicable:
        del written["is_applicable"]
    return written


def _write_fields(form: type[msgspec.Struct], source: object, **plain: Any) -> dict[str, Any]:
    """Return the fields that a form has, in its order, from an object, but for those that are ``plain`` already."""
    others = {name: _make_builtin(getattr(source, name)) for name in form.__struct_fields__ if name not in plain}
    plain |= msgspec.to_builtins(others)
    return {name: plain[name] for name in form.__struct_fields__}


def _make_builtin(value: Any) -> Any:
    """Return a tuple as a list, and a mapping of any kind as a dict, which msgspec asks for."""
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


# Reading --------------------------------------------------------------------------------------------------------------


def read_report(body: Any, where: str = "") -> Report:
    """Return the report that `write_report` wrote; raises `ValueError` with the field, behind ``where``, for others."""
    read = convert(body, _Report, where.removesuffix("."))
    layers = _read_table(read.layers, LayerTable, f"{where}layers", require_tree)
    operators = _read_table(read.operators, Table, f"{where}operators", require_operators)
    memory = None if read.memory is None else _read_timeline(read.memory, operators, where)
    require_once((status.key for status in read.statuses), f"{where}statuses", "key")
    records = [_read_record(status, f"{where}statuses[{index}]") for index, status in enumerate(read.statuses)]
    fields = {
        **{name: getattr(read, name) for name in _Report.__struct_fields__},
        "statuses": {record.key: record for record in records},
        "layers": layers,
        "notes": tuple(read.notes),
        "conditions": tuple(read.conditions),
        "data": {key: from_plain(value, f"{where}data.{key}") for key, value in read.data.items()},
        "operators": operators,
        "memory": memory,
    }
    return Report(**fields)


def _read_timeline(memory: _Memory, operators: Table | None, where: str) -> MemoryTimeline:
    if operators is not None and len(memory.live_bytes) != len(operators):
        actual, expected = len(memory.live_bytes), len(operators)
        raise ValueError(f"{where}memory.live_bytes has {actual} values for {expected} operators")
    return MemoryTimeline(**{**msgspec.structs.asdict(memory), "live_bytes": tuple(memory.live_bytes)})


def _read_record(status: _Status, where: str) -> StatusRecord:
    """Return the record of a metric; raises `ValueError` if its value does not fit its completeness or its bounds."""
    value = from_plain(status.value, f"{where}.value")
    has_value = status.completeness in (Completeness.COMPLETE, Completeness.PARTIAL)
    if has_value == (value is None):
        raise ValueError(f"{where}.value is {value!r:.60} where completeness is {status.completeness.value}")
    if not status.is_applicable and status.completeness is not Completeness.UNAVAILABLE:
        raise ValueError(f"{where}.is_applicable is false where completeness is {status.completeness.value}")
    fields = msgspec.structs.asdict(status)
    low, high = (_read_end(fields.pop(name), f"{where}.{name}") for name in ("low", "high"))
    bounds = None
    if status.completeness is Completeness.PARTIAL and status.low is not msgspec.UNSET and is_number(value):
        bounds = _read_bounds(value, low, high, where)
    return StatusRecord(**{**fields, "value": value, "missing": tuple(status.missing), "bounds": bounds})


def _read_end(plain: Any, where: str) -> float | None:
    end = None if plain is msgspec.UNSET else from_plain(plain, where)
    if end is not None and type(end) not in (int, float):
        raise ValueError(f"{where} is {short(end)}, no number")
    return end


def _read_bounds(value: Any, low: float | None, high: float | None, where: str) -> Bounds | None:
    """Return the two ends of a partial number; None for a plain lower bound, and for a measurement."""
    if isinstance(value, Measurement) or (low == value and high is None):
        return None
    if (low is not None and low > value) or (high is not None and high < value):
        raise ValueError(f"{where} has the value {short(value)}, which is not between low and high")
    return Bounds(low, high)


def _read_table(value: Any, kind: type[Any], where: str, require: Callable[[Any, str], None]) -> Any:
    """Return a table, None for None; raises `ValueError` unless it is of exactly that class, and as is required."""
    if value is None:
        return None
    table = from_plain(value, where)
    if type(table) is not kind:
        raise ValueError(f"{where} holds no {kind.__name__}")
    require(table, where)
    return table
