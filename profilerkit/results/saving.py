"""Reports and comparisons in files: JSON with a schema, a version of it, and a checksum.

Reading checks everything: a file that was cut off, changed or written by another program is an error that names the
field, never a wrong number.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from ..arguments.checks import PATH
from ..errors import FailureCode, ReportFileError
from ..piping.comparative import Comparative
from ..piping.outcome import Completeness, is_number
from ..piping.quantity import Scale
from ..process.collector import collector_paused
from ..process.files import write_text
from ..times.measurement import Measurement
from ..trace.bounds import Bounds
from ..trace.records import LayerTable, MemoryTimeline
from ..trace.table import Table
from .checked_tables import require_operators, require_tree
from .comparison import Comparison
from .entries import require_once, short
from .json_values import convert, from_plain, to_plain
from .report import Report, StatusRecord
from .result import Result

__all__ = ["SCHEMA", "load", "load_as", "parse", "require_sealed", "reseal", "save", "to_dict", "to_json"]

#: The formats of files, and the schema that is written.
REPORT, COMPARISON = "profilerkit.report", "profilerkit.comparison"
SCHEMA = 1
#: No count is so large; a larger one could not even be divided.
_LARGEST = 10**100
R = TypeVar("R", bound=Result)
T = TypeVar("T")
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


def to_dict(result: Report | Comparison) -> dict[str, Any]:
    """Return a report, or the reports of a comparison with the reference first, as values that JSON can hold.

    Format, schema and checksum are among them.
    """
    if isinstance(result, Comparison):
        return _seal(COMPARISON, {"reports": [_write_body(report) for report in result.reports]})
    return _seal(REPORT, _write_body(result))


def to_json(result: Report | Comparison) -> str:
    """Return the text of the file that `save` writes."""
    return msgspec.json.format(msgspec.json.encode(to_dict(result)), indent=1).decode()


def save(result: Report | Comparison, path: str | PathLike[str]) -> None:
    """Write a report or comparison to a file: the whole of it, or nothing."""
    write_text(PATH("path", path), to_json(result))


def _write_body(report: Report) -> dict[str, Any]:
    tables = {"layers": report.layers, "operators": report.operators}
    return _write_fields(
        _Report,
        report,
        statuses=[_write_status(record) for record in report.statuses.values()],
        data={key: to_plain(value) for key, value in report.data.items()},
        memory=None if report.memory is None else _write_fields(_Memory, report.memory),
        **{name: None if table is None else to_plain(table) for name, table in tables.items()},
    )


def _write_status(record: StatusRecord) -> dict[str, Any]:
    ends = record.ends or Bounds()
    plain = {"value": to_plain(record.value), "low": to_plain(ends.low), "high": to_plain(ends.high)}
    written = _write_fields(_Status, record, **plain)
    if record.failure is None:
        del written["failure"]
    if record.is_applicable:
        del written["is_applicable"]
    return written


def _write_fields(form: type[msgspec.Struct], source: object, **written: Any) -> dict[str, Any]:
    """Return the fields that a form in a file has, of an object, as values that JSON can hold; some are written."""
    others = {name: getattr(source, name) for name in form.__struct_fields__ if name not in written}
    plain: dict[str, Any] = msgspec.to_builtins({name: _list_items(value) for name, value in others.items()})
    return {name: written[name] if name in written else plain[name] for name in form.__struct_fields__}


def _list_items(value: Any) -> Any:
    """Return a list of a tuple, and a dict of a mapping of any kind; any other value as it is."""
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def _seal(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    try:
        msgspec.json.encode(body)
    except UnicodeEncodeError:  # half of a surrogate pair, which a name may hold and a file may not
        body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    head = {"format": kind, "schema": SCHEMA, "profilerkit": _read_own_version()}
    return {**head, "checksum": _checksum({**head, **body}), **body}


@cache
def _read_own_version() -> str:
    """Return the version of profilerkit; a separate process seals each report several times, and reading takes long."""
    return version("profilerkit")


def reseal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file, of which texts were changed on purpose, with the checksum that fits."""
    body = {key: value for key, value in content.items() if key != "checksum"}
    return {**content, "checksum": _checksum(body)}


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


# Reading --------------------------------------------------------------------------------------------------------------


def load(path: str | PathLike[str]) -> Report | Comparison:
    """Read a report or comparison from a file that `save` wrote.

    Raises `ReportFileError` for anything else: it says which field is wrong, and what was expected there.
    """
    try:
        content = Path(PATH("path", path)).read_bytes()
    except OSError as error:
        raise ReportFileError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error
    return parse(content, os.fspath(path))


def load_as(kind: type[R], path: str | PathLike[str]) -> R:
    """Read a file that must hold a report, or a comparison."""
    loaded = load(path)
    if not isinstance(loaded, kind):
        actual, expected = type(loaded).__name__, kind.__name__
        raise ReportFileError(f"{os.fspath(path)} holds a {actual}, not a {expected}; read it with {actual}.load")
    return loaded


def parse(content: bytes, source: str) -> Report | Comparison:
    """Read the bytes of a file; ``source`` is what errors call it."""
    return _read(content, source, _read_result)


def require_sealed(content: bytes, source: str) -> None:
    """Raise `ReportFileError` for bytes that are no file of `save`, or changed; `parse` checks the rest of it."""
    _read(content, source, lambda decoded: _open_content(_require_object(decoded)))


def _read(content: bytes, source: str, read: Callable[[Any], T]) -> T:
    with collector_paused():  # a large report has a million values, and none of them is garbage
        try:
            decoded = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ReportFileError(
                f"{source} is not a report of profilerkit: {_shorten(error)}; was it cut off?"
            ) from error
        try:
            return read(decoded)
        except (ValueError, RecursionError) as error:
            raise ReportFileError(f"{source} is not a report of profilerkit, or damaged: {_shorten(error)}") from error


def _shorten(error: Exception) -> str:
    """Return what an error says, of names of any length in the file the beginning."""
    message = str(error)
    return message if len(message) <= 500 else f"{message[:497]}..."


def _read_result(decoded: Any) -> Report | Comparison:
    _require_bounded(_require_object(decoded))
    kind, body = _open_content(decoded)
    if kind == REPORT:
        return _read_report(body)
    reports = body.get("reports")
    if set(body) != {"reports"} or not isinstance(reports, list) or len(reports) < 2:
        raise ValueError("reports: a comparison holds two reports or more, and nothing else")
    first, *rest = (_read_report(one, f"reports[{index}].") for index, one in enumerate(reports))
    return Comparison(first, tuple(rest))


def _require_object(decoded: Any) -> dict[str, Any]:
    if not isinstance(decoded, dict):
        raise ValueError(f"it holds a {type(decoded).__name__}, no report")
    return decoded


def _require_bounded(decoded: Any) -> None:
    """Raise `ValueError` where a whole number is larger than any that there is: floats could not hold it."""
    pending = [decoded]
    while pending:
        container = pending.pop()
        inside = container.values() if isinstance(container, dict) else container
        for value in inside:
            if type(value) in (dict, list):
                pending.append(value)
            elif type(value) is int and not -_LARGEST < value < _LARGEST:
                entries = container.items() if isinstance(container, dict) else ()
                name = next((key for key, content in entries if content is value), "")
                raise ValueError(f"{name or 'a number'} is larger than 1e100, beyond any count")


def _open_content(content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the kind and the body of a file of today's schema, whose checksum fits."""
    kind, schema, writer = (content.get(name) for name in ("format", "schema", "profilerkit"))
    if kind not in (REPORT, COMPARISON):
        raise ValueError(f"format is {kind!r}; that of a report is {REPORT!r}, of a comparison {COMPARISON!r}")
    if type(schema) is int and schema > SCHEMA:
        raise ValueError(
            f"schema is {schema}, written by profilerkit {writer}; this profilerkit reads up to {SCHEMA}: upgrade it"
        )
    if schema != SCHEMA or type(schema) is not int:
        raise ValueError(f"schema is {schema!r}, which there never was in a {kind}")
    sealed = {key: value for key, value in content.items() if key != "checksum"}
    if content.get("checksum") != _checksum(sealed):
        raise ValueError("checksum does not fit the content: the file was changed after it was written")
    return kind, {key: value for key, value in sealed.items() if key not in ("format", "schema", "profilerkit")}


def _read_report(body: Any, where: str = "") -> Report:
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
    ends = [_read_end(fields.pop(name), f"{where}.{name}") for name in ("low", "high")]
    bounds = None
    if status.completeness is Completeness.PARTIAL and status.low is not msgspec.UNSET and is_number(value):
        bounds = _read_bounds(value, ends[0], ends[1], where)
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
