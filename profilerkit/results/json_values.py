"""Values of a report as what JSON can hold, and back.

Numbers, text, truth values, lists and mappings stay what they are. Everything else is a mapping with a ``type``:
measurements, tables, tuples, and the floats that JSON cannot write. Calls of a layer are rows, for there may be very
many of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, fields
from functools import partial
from numbers import Integral
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from ..piping.outcome import is_number
from ..times.batch_sweep import BatchSweep
from ..times.conditions import Conditions, process_name
from ..times.layer_times import CallTime, LayerTime, LayerTimeTable
from ..times.measurement import Measurement
from ..times.operator_times import COLUMNS
from ..trace.records import LayerTable
from ..trace.table import Table
from .checked_tables import require_layers, require_rows, require_times
from .entries import require_once, short

__all__ = ["convert", "from_plain", "to_plain"]

T = TypeVar("T")
_Seconds: TypeAlias = float | None


#: The types of values that JSON has itself.
_AS_THEY_ARE = frozenset({bool, int, str, type(None)})


class _LayerTime(msgspec.Struct):
    """The fields of `LayerTime`; its type has another name, because ``type`` says what a mapping is."""

    path: str
    layer_type: str
    calls: Annotated[int, msgspec.Meta(ge=0)]
    own_forward: tuple[float, ...]
    missing: str
    #: Of each call the pass, the call, and its four times.
    each_call: tuple[tuple[int, int, _Seconds, _Seconds, _Seconds, _Seconds], ...]
    own_backward: tuple[float, ...] | None = None
    overhead: float | None = None


def to_plain(value: Any) -> Any:
    """Return a value as JSON can hold it; what has no such form as its text."""
    if type(value) in _AS_THEY_ARE:  # nearly all cells of a table are
        return value
    if type(value) is float:
        return _write_float(value)
    if isinstance(value, Measurement):
        return _write_measurement(value)
    # Of tables those of a class with more than rows come first.
    if isinstance(value, BatchSweep):
        return {"type": "batch_sweep", "rows": [to_plain(dict(row)) for row in value]}
    if isinstance(value, LayerTimeTable):
        return {**_write_rows("layer_times", value), "times": list(map(_write_layer_time, value.times))}
    if isinstance(value, Table):
        return _write_rows("layers" if isinstance(value, LayerTable) else "table", value)
    if isinstance(value, Mapping):
        items = {str(key): to_plain(item) for key, item in value.items()}
        return {"type": "mapping", "items": items} if "type" in items else items
    if isinstance(value, tuple):
        return {"type": "tuple", "items": [to_plain(item) for item in value]}
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, Integral):  # numpy's, of any size
        return int(value)
    return _write_float(float(value)) if is_number(value) else str(value)


def _write_rows(kind: str, table: Table) -> dict[str, Any]:
    columns = list(table.columns)
    rows = [list(map(row.get, columns)) for row in table]
    return {
        "type": kind,
        "columns": columns,
        "rows": [[cell if type(cell) in _AS_THEY_ARE else _write_cell(cell) for cell in row] for row in rows],
    }


def _write_cell(value: Any) -> Any:
    """Return a cell of a table; its tuples are lists, since every list in a table is a tuple when it comes back."""
    return [_write_cell(item) for item in value] if isinstance(value, (list, tuple)) else to_plain(value)


def _write_float(value: float) -> Any:
    """Return a float; one that JSON cannot write as a mapping."""
    return value if math.isfinite(value) else {"type": "float", "value": str(value)}


def _write_measurement(value: Measurement) -> dict[str, Any]:
    """Return every statistic of a measurement, for people, and what it is made of, to read it back from."""
    statistics = {key: to_plain(item) for key, item in value.to_dict().items() if key != "conditions"}
    session = None if value.session is None else _name_session(value.session)
    return {
        "type": "measurement",
        **statistics,
        "precision": value.precision,
        "session": session,
        "conditions": None if value.conditions is None else asdict(value.conditions),
    }


def _write_layer_time(time: LayerTime) -> dict[str, Any]:
    form = _LayerTime(
        path=time.path,
        layer_type=time.type,
        calls=time.calls,
        own_forward=time.own_forward,
        missing=time.missing,
        each_call=tuple(map(astuple, time.each_call)),
        own_backward=time.own_backward,
        overhead=time.overhead,
    )
    plain: dict[str, Any] = msgspec.to_builtins(form)
    return plain


def _name_session(session: Any) -> str:
    """Return a name for a session that no other process uses: samples pair up with those of their own session alone."""
    return session if isinstance(session, str) else f"{process_name()}:{session}"


def from_plain(value: Any, where: str = "value") -> Any:
    """Return the value that `to_plain` wrote; raises `ValueError`, naming ``where``, for what it never writes."""
    if isinstance(value, list):
        return [from_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if "type" not in value:
        return {key: from_plain(item, f"{where}.{key}") for key, item in value.items()}
    read = _READERS.get(value["type"]) if isinstance(value["type"], str) else None
    if read is None:
        raise ValueError(f"{where}.type is {value['type']!r}; it can be {', '.join(map(repr, _READERS))}")
    return read(value, where)


def convert(value: Any, kind: type[T], where: str) -> T:
    """Return a value as a struct or a dataclass; raises `ValueError`, naming the field, where it is none."""
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        wrong, _, field = str(error).partition(" - at ")
        name = f"{where}{field.strip('`').removeprefix('$')}".removeprefix(".") or "report"
        raise ValueError(f"{name}: {wrong[:1].lower()}{wrong[1:]}") from error


def _read_conditions(value: Any, where: str) -> Conditions | None:
    if value is None:
        return None
    read = convert(value, Conditions, where)
    names = [field.name for field in fields(Conditions)]
    if unknown := value.keys() - {*names}:
        raise ValueError(f"{where}.{min(unknown)} is unknown; it can have {', '.join(names)}")
    return read


def _read_layer_time(value: Any, where: str) -> LayerTime:
    read = msgspec.structs.asdict(convert(value, _LayerTime, where))
    calls = tuple(CallTime(*call) for call in read["each_call"])
    return LayerTime(type=read.pop("layer_type"), **{**read, "each_call": calls})


def _require_field(value: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str) -> Any:
    """Return a field of a mapping; raises `ValueError` if it is not of its kind: a truth value is no number."""
    field = value.get(name)
    if not isinstance(field, kind) or isinstance(field, bool):
        raise ValueError(f"{where}.{name} is {short(field)}")
    return field


def _read_optional_field(value: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str) -> Any:
    return None if value.get(name) is None else _require_field(value, name, kind, where)


def _read_float(value: Mapping[str, Any], where: str) -> float:
    text = _require_field(value, "value", str, where)
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"{where}.value is {text!r}; it can be 'nan', 'inf', '-inf'")
    return float(text)


def _read_samples(value: Mapping[str, Any], name: str, where: str) -> tuple[float, ...]:
    samples = from_plain(_require_field(value, name, list, where), f"{where}.{name}")
    wrong = [index for index, sample in enumerate(samples) if type(sample) not in (int, float)]
    if wrong:
        raise ValueError(f"{where}.{name}[{wrong[0]}] is {short(samples[wrong[0]])}, no number")
    return tuple(map(float, samples))


def _read_measurement(value: Mapping[str, Any], where: str) -> Measurement:
    samples = _read_samples(value, "samples", where)
    if not samples:
        raise ValueError(f"{where}.samples is empty")
    confidence = _require_field(value, "confidence", (int, float), where)
    if not 0 < confidence < 1:
        raise ValueError(f"{where}.confidence is {confidence!r}; it lies between 0 and 1")
    precision = _read_optional_field(value, "precision", (int, float), where)
    measurement = Measurement(
        samples,
        float(confidence),
        warmup=_read_samples(value, "warmup", where),
        session=_read_optional_field(value, "session", str, where),
        precision=None if precision is None else float(precision),
        adaptive=value.get("adaptive") is True,
        conditions=_read_conditions(value.get("conditions"), f"{where}.conditions"),
    )
    written = from_plain(value.get("median"), f"{where}.median")
    is_same = type(written) in (int, float) and repr(float(written)) == repr(measurement.median)  # also for nan
    if not is_same:
        raise ValueError(f"{where}.median is {short(written)}, but that of its samples is {measurement.median!r}")
    return measurement


def _read_table(value: Mapping[str, Any], where: str, kind: type[Table] = Table) -> Table:
    columns, rows = (_require_field(value, name, list, where) for name in ("columns", "rows"))
    if not all(isinstance(column, str) for column in columns):
        raise ValueError(f"{where}.columns is {short(columns)}; columns have names")
    for index, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(columns):
            raise ValueError(f"{where}.rows[{index}] has not one value for each of the {len(columns)} columns")
    if len(set(columns)) < len(columns):
        raise ValueError(f"{where}.columns is {short(columns)}; each has a name of its own")
    table = kind(dict(zip(columns, map(_read_cell, row), strict=True)) for row in rows)
    if isinstance(table, LayerTable):
        require_layers(table, where)
    require_rows(table, where)
    if tuple(columns) == COLUMNS:
        require_times(table, where)
    return table


def _read_layer_times(value: Mapping[str, Any], where: str) -> LayerTimeTable:
    listed = _require_field(value, "times", list, where)
    times = [_read_layer_time(time, f"{where}.times[{index}]") for index, time in enumerate(listed)]
    require_once((time.path for time in times), f"{where}.times", "path")
    return LayerTimeTable(times)


def _read_sweep(value: Mapping[str, Any], where: str) -> BatchSweep:
    rows = from_plain(_require_field(value, "rows", list, where), f"{where}.rows")
    for index, row in enumerate(rows):
        _require_sweep_row(row, f"{where}.rows[{index}]")
    return BatchSweep(rows)


def _require_sweep_row(row: Any, where: str) -> None:
    """Raise `ValueError` if a row of a sweep lacks one of its columns, or has a value there that none can be."""
    if not isinstance(row, dict) or not isinstance(row.get("execution_time"), Measurement):
        raise ValueError(f"{where} has no measured execution_time")
    if type(row.get("batch_size")) is not int or type(row.get("is_knee")) is not bool:
        raise ValueError(f"{where} does not say the batch size, or whether it is the knee")
    if type(row.get("throughput")) not in (int, float) or "memory_footprint" not in row:
        raise ValueError(f"{where} has no throughput or no memory_footprint")
    memory, size = row["memory_footprint"], row["batch_size"]
    is_memory = memory is None or (type(memory) in (int, float) and not memory < 0)
    if not is_memory or not 1 <= size < 2**63:
        raise ValueError(f"{where} is for {size} samples in {short(memory)} bytes")


def _read_cell(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return tuple(map(_read_cell, value))
    return from_plain(value) if kind is dict else value


def _read_tuple(value: Mapping[str, Any], where: str) -> tuple[Any, ...]:
    return tuple(from_plain(_require_field(value, "items", list, where), f"{where}.items"))


def _read_mapping(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    items = _require_field(value, "items", dict, where)
    return {key: from_plain(item, f"{where}.items.{key}") for key, item in items.items()}


#: By the type of a value: returns it, of its mapping and of where that is; raises `ValueError` for a wrong one.
_READERS: dict[str, Callable[[Mapping[str, Any], str], Any]] = {
    "measurement": _read_measurement,
    "table": _read_table,
    "layer_times": _read_layer_times,
    "batch_sweep": _read_sweep,
    "layers": partial(_read_table, kind=LayerTable),
    "tuple": _read_tuple,
    "mapping": _read_mapping,
    "float": _read_float,
}
