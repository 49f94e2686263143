"""Values of a report in a form that JSON can hold, and back.

Numbers, text, booleans, lists and mappings are unchanged. Every other value becomes a mapping with a ``type``:
measurements, tables, tuples, and the floats that JSON cannot write. Calls of a layer become rows, because there may be
very many of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import astuple, fields, is_dataclass
from enum import Enum
from functools import partial
from numbers import Integral
from typing import Annotated, Any, TypeAlias, TypedDict, TypeVar

import msgspec
import numpy as np

from ..error_text import shown
from ..piping.outcome import is_number
from ..times.batch_sweep import BatchSweep
from ..times.conditions import Conditions, process_name
from ..times.layer_times import CallTime, LayerTime, LayerTimeTable
from ..times.measurement import Measurement
from ..trace.layer_paths import count_depth
from ..trace.records import LayerTable
from ..trace.table import Table
from .column_kinds import are_of_layers, are_of_operators, find_kind
from .comparison import distinct_names

__all__ = ["convert", "from_plain", "to_plain", "write_fields"]

T = TypeVar("T")
_Seconds: TypeAlias = float | None
#: A call of a layer: the fields of `CallTime`.
_Call: TypeAlias = tuple[int, int, _Seconds, _Seconds, _Seconds, _Seconds]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | Annotated[float, msgspec.Meta(ge=0)]

#: The types of values that JSON has itself.
_AS_THEY_ARE = frozenset({bool, int, str, type(None)})


class _SweepRow(TypedDict):
    """A row of a `BatchSweep`."""

    batch_size: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    execution_time: Measurement
    throughput: _Number
    memory_footprint: _Number | None
    is_knee: bool


# Writing --------------------------------------------------------------------------------------------------------------


def to_plain(value: Any) -> Any:
    """Return a value in a form of JSON; the text of a value without such a form."""
    if type(value) in _AS_THEY_ARE:  # nearly all cells of a table are
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"type": "float", "value": str(value)}
    return next((write for kind, write in _WRITERS if isinstance(value, kind)), _write_scalar)(value)


def _write_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a mapping with texts as keys; if keys read alike, 1 and "1", the types of keys that are no text are added.

    >>> _write_mapping({1: "a", "1": "b", 2: "c"}), _write_mapping({1: "a", "1": "b", "1 (int)": "c"})
    ({'1 (int)': 'a', '1': 'b', '2': 'c'}, {'1 (int) (1)': 'a', '1': 'b', '1 (int) (2)': 'c'})
    """
    texts = Counter(map(str, value))
    names = [
        str(key) if isinstance(key, str) or texts[str(key)] == 1 else f"{key} ({type(key).__name__})" for key in value
    ]
    items = dict(zip(distinct_names(names), map(to_plain, value.values()), strict=True))
    return {"type": "mapping", "items": items} if "type" in items else items


def _write_scalar(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, Integral):  # numpy's, of any size, and a class of the user's
        return int(value)
    if isinstance(value, np.bool_):
        return bool(value)
    return to_plain(float(value)) if is_number(value) else str(value)


def _write_rows(kind: str, table: Table) -> dict[str, Any]:
    columns = list(table.columns)
    rows = [list(map(row.get, columns)) for row in table]
    return {
        "type": kind,
        "columns": columns,
        "rows": [[cell if type(cell) in _AS_THEY_ARE else _write_cell(cell) for cell in row] for row in rows],
    }


def _write_cell(value: Any) -> Any:
    """Return a cell of a table; its tuples are lists, because every list in a table is a tuple when it comes back."""
    return [_write_cell(item) for item in value] if isinstance(value, (list, tuple)) else to_plain(value)


def _write_measurement(value: Measurement) -> dict[str, Any]:
    """Return every statistic of a measurement, for people, and its samples and settings, to read it back from."""
    session = value.session
    if isinstance(session, int):  # samples pair up with samples of the same session alone, in any process
        session = f"{process_name()}:{session}"
    return {"type": "measurement", **to_plain({**value.to_dict(), "precision": value.precision, "session": session})}


def _write_layer_times(value: LayerTimeTable) -> dict[str, Any]:
    times = [write_fields(time, each_call=[list(astuple(call)) for call in time.each_call]) for time in value.times]
    return {**_write_rows("timed_layers", value), "times": times}


#: How values are written, by their type; a class stands before its base.
_WRITERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (Measurement, _write_measurement),
    (BatchSweep, lambda sweep: {"type": "sweep", "rows": [to_plain(dict(row)) for row in sweep]}),
    (LayerTimeTable, _write_layer_times),
    (LayerTable, partial(_write_rows, "layers")),
    (Table, partial(_write_rows, "table")),
    (Mapping, _write_mapping),
    (tuple, lambda value: {"type": "tuple", "items": list(map(to_plain, value))}),
    (list, lambda value: list(map(to_plain, value))),
)


def write_fields(source: Any, **plain: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, which hold numbers, text and collections of these, but for ``plain`` ones."""
    return {
        field.name: plain[field.name] if field.name in plain else _write_field(getattr(source, field.name))
        for field in fields(source)
    }


def _write_field(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value.value if isinstance(value, Enum) else value


# Reading --------------------------------------------------------------------------------------------------------------


def from_plain(value: Any, where: str = "value") -> Any:
    """Return the value that `to_plain` wrote; raises `ValueError`, naming ``where``, for any other content."""
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
    """Return a value as a type: a dataclass, a list of numbers. Raises `ValueError`, naming the field that is wrong.

    Parts of the value that already have their type stay as they are.
    """
    try:
        converted = msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        wrong, _, field = str(error).partition(" - at ")
        name = f"{where}{field.strip('`').removeprefix('$')}".removeprefix(".") or "report"
        raise ValueError(f"{name}: {wrong[:1].lower()}{wrong[1:]}") from error
    if is_dataclass(kind):
        names = [field.name for field in fields(kind)]
        if unknown := value.keys() - {*names}:
            name = f"{where}.{min(unknown)}".removeprefix(".")
            raise ValueError(f"{name} is unknown; it can have {', '.join(names)}")
    return converted


def _read_measurement(value: Mapping[str, Any], where: str) -> Measurement:
    names = [field.name for field in fields(Measurement) if field.name in value]
    parts = {name: from_plain(value[name], f"{where}.{name}") for name in names}
    if isinstance(parts.get("session"), int):
        raise ValueError(f"{where}.session is {parts['session']}, which is a name in files")
    if parts.get("conditions") is not None:
        parts["conditions"] = convert(parts["conditions"], Conditions, f"{where}.conditions")
    return convert(parts, Measurement, where)


def _read_table(value: Mapping[str, Any], where: str, kind: type[Table] = Table) -> Table:
    columns = convert(value.get("columns"), list[str], f"{where}.columns")
    rows = convert(value.get("rows"), list[list[Any]], f"{where}.rows")
    if len(set(columns)) < len(columns):
        raise ValueError(f"{where}.columns is {shown(columns)}; each has a name of its own")
    for index, row in enumerate(rows):
        if len(row) != len(columns):
            raise ValueError(f"{where}.rows[{index}] has not one value for each of the {len(columns)} columns")
    is_by_layer = kind is LayerTable and are_of_layers(columns)
    if is_by_layer or are_of_operators(columns):
        for index, column in enumerate(columns):
            convert([row[index] for row in rows], find_kind(column), f"{where}.{column}")
    table = kind(dict(zip(columns, map(_read_cell, row), strict=True)) for row in rows)
    if is_by_layer:
        _require_depths(table, where)
    return table


def _require_depths(layers: Table, where: str) -> None:
    """Raise `ValueError` if a layer does not lie as deep as its path says: renderers indent by the depth."""
    for index, row in enumerate(layers):
        if row["depth"] != count_depth(row["path"]):
            raise ValueError(f"{where}.depth[{index}] is {shown(row['depth'])}, which does not fit the layer's path")


def _read_cell(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return tuple(map(_read_cell, value))
    return from_plain(value) if kind is dict else value


def _read_layer_times(value: Mapping[str, Any], where: str) -> LayerTimeTable:
    times = []
    for index, time in enumerate(convert(value.get("times"), list[dict[str, Any]], f"{where}.times")):
        calls = convert(time.get("each_call"), list[_Call], f"{where}.times[{index}].each_call")
        each_call = [CallTime(*call) for call in calls]
        times.append(convert({**time, "each_call": each_call}, LayerTime, f"{where}.times[{index}]"))
    return LayerTimeTable(times)


def _read_sweep(value: Mapping[str, Any], where: str) -> BatchSweep:
    rows = from_plain(value.get("rows"), f"{where}.rows")
    return BatchSweep(convert(rows, list[_SweepRow], f"{where}.rows"))


def _read_tuple(value: Mapping[str, Any], where: str) -> tuple[Any, ...]:
    return tuple(from_plain(convert(value.get("items"), list[Any], f"{where}.items"), f"{where}.items"))


def _read_mapping(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    items = convert(value.get("items"), dict[str, Any], f"{where}.items")
    return {key: from_plain(item, f"{where}.items.{key}") for key, item in items.items()}


def _read_float(value: Mapping[str, Any], where: str) -> float:
    text = value.get("value")
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"{where}.value is {shown(text)}; it can be 'nan', 'inf', '-inf'")
    return float(text)


#: By the type of a value: a function that returns it from its mapping and its place; `ValueError` for a wrong one.
_READERS: dict[str, Callable[[Mapping[str, Any], str], Any]] = {
    "measurement": _read_measurement,
    "table": _read_table,
    "timed_layers": _read_layer_times,
    "sweep": _read_sweep,
    "layers": partial(_read_table, kind=LayerTable),
    "tuple": _read_tuple,
    "mapping": _read_mapping,
    "float": _read_float,
}
