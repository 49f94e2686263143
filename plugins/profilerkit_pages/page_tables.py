"""The tables of a page: their columns, the tree of layers, and what stands beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.piping.quantity import Scale, write_title
from profilerkit.render.values import write_row_value
from profilerkit.trace.bounds import WORK
from profilerkit.trace.layer_paths import count_depth, nearest_around
from profilerkit.trace.layer_view import PEAK
from profilerkit.trace.records import LayerTable
from profilerkit.trace.rows import TRAFFIC, read_work
from profilerkit.trace.table import Table

from .page_parts import pack
from .page_records import ColumnData

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = [
    "SPEEDS",
    "Row",
    "describe_column",
    "describe_layers",
    "find_places",
    "find_signs",
    "list_tables",
    "make_plain",
    "merge_rows",
    "write_layer_name",
]

#: A row of a table of layers or operators.
Row: TypeAlias = Mapping[str, Any]


def list_tables(report: Report, layers: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the tables beside that of the layers: layers by what they take themselves, types, operators, metrics."""
    operators = report.operators or ()
    if layers:
        yield from _list_layer_tables(layers)
    if operators:
        work = {key: key for key in (*WORK, *TRAFFIC) if key in operators[0]}
        yield _describe_table("By operator", "operator", "operator", _add_up(operators, "operator", work, "calls"))
    for record in report.statuses.values():
        if isinstance(record.value, Table) and record.value and not _is_by_layer(record.value):
            yield _describe_table(visible(record.friendly_name), record.value.columns[0], "row", record.value)


def _forget_uncounted(layers: Iterable[Row], operators: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the layers without the work of their own where an operator is not counted: it is unknown, and not less."""
    uncounted = {operator["layer"] for operator in operators if operator.get("missing")}
    unknown = {f"own_{column}": None for column in WORK}
    return [{**layer, **unknown} if layer["path"] in uncounted else dict(layer) for layer in layers]


def _list_layer_tables(layers: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the tables of layers and of their types, each layer without those inside it; ``layers`` begin at the root.

    Columns have the names of those that include the layers inside, "macs" for "own_macs": so they get their titles.
    """
    root = layers[0]
    own_keys = {key.removeprefix("own_"): key for key in root if key.startswith("own_") and key not in SPEEDS}
    own_keys = dict(sorted(own_keys.items(), key=lambda item: _is_memory(item[0])))  # work and times come first
    rows = [
        {
            "layer": layer["path"] or "(model)",
            "type": layer["type"],
            **{key: layer.get(own_key) for key, own_key in own_keys.items()},
        }
        for layer in layers
        if any((layer.get(key) or 0) > 0 for key in own_keys.values())
    ]
    if rows:
        by_layer = _describe_table("By layer", "layer", "layer", sorted(rows, key=_rank), root)
        yield {**by_layer, "lead": "Each layer without the layers inside it."}
    types = _add_up(layers, "type", own_keys, "layers")
    if len(types) > 1:
        yield _describe_table("By type", "type", "type", types, root)


def _is_memory(key: str) -> bool:
    return key.endswith("_bytes")


def _add_up(rows: Iterable[Row], by: str, columns: Mapping[str, str], count: str) -> list[dict[str, Any]]:
    """Return a row for each value of the column ``by``: how many rows have it, as ``count``, and sums of others.

    ``columns`` has for each sum the column that it is of. A sum is None if one of its values is not known.
    """
    sums: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = str(row[by])
        total = sums.setdefault(name, {by: name, count: 0, **dict.fromkeys(columns, 0)})
        total[count] += 1
        for column, key in columns.items():
            value = read_work(row, key)
            is_known = total[column] is not None and is_number(value) and math.isfinite(value)
            total[column] = total[column] + value if is_known else None
    return sorted(sums.values(), key=_rank)


def _rank(row: Row) -> list[float]:
    """Return what rows are sorted by: most time first, or where there is none most work."""
    return [-(row.get(key) or 0) for key in ("forward_seconds", "macs", "flops")]


def _describe_table(title: str, name: str, thing: str, rows: Sequence[Row], whole: Row | None = None) -> dict[str, Any]:
    """Return a table of the page, whose rows are named by the column ``name``.

    ``thing`` is what a row is of. ``whole`` has what shares are of; None for a table without shares.
    """
    keys = [key for key in rows[0] if key != name]
    columns = [column for key in keys for column in describe_column(key, [row.get(key) for row in rows])]
    names = pack([visible(str(row.get(name))) for row in rows])
    for column in columns:
        key = column["key"]
        is_memory_of_layers = whole is not None and _is_memory(key) and key != PEAK
        column["shown"] = not key.startswith("bytes_") and not is_memory_of_layers
        total: Any = None if whole is None else whole.get(key)
        if column["share"] and is_number(total) and total > 0:
            column["whole"] = make_plain(total)
    return {
        "title": title,
        "thing": thing,
        "heading": _write_column_title(name),
        "rows": {"names": names, "columns": columns},
    }


# The tree of layers ---------------------------------------------------------------------------------------------------

#: Columns from which the page builds its tree of layers.
_TREE_COLUMNS = {"path", "type", "depth", "is_leaf"}


def merge_rows(report: Report) -> list[dict[str, Any]]:
    """Return the rows of the layers with what was measured of each, and the bytes that its operators move."""
    measured = [record.value for record in report.statuses.values() if _is_by_layer(record.value)]
    base = next((table for table in (report.layers, *measured) if table is not None), LayerTable(()))
    measured_by_path = [{row["path"]: row for row in table} for table in measured]
    moved = {} if base and "bytes_read" in base[0] else _sum_moved_bytes(report, base)
    merged = []
    for row in base:
        whole: dict[str, Any] = {}
        for table in measured_by_path:
            whole |= table.get(row["path"], {})
        whole |= row
        if row["path"] in moved:
            whole["bytes_moved"] = moved[row["path"]]
        elif all(is_number(whole.get(column)) for column in TRAFFIC):
            whole["bytes_moved"] = sum(whole[column] for column in TRAFFIC)
        merged.append(whole)
    return _forget_uncounted(merged, report.operators or ())


def _is_by_layer(value: Any) -> bool:
    """Say whether a value is a table with one row for each layer: not for each call of one, nor for each type."""
    if not isinstance(value, LayerTable):
        return False
    paths = [row.get("path") for row in value]
    return None not in paths and len(set(paths)) == len(paths)


def _sum_moved_bytes(report: Report, layers: Iterable[Row]) -> dict[str, int]:
    """Return the bytes read and written by the operators of each layer, the layers inside included."""
    if not report.operators or "bytes_read" not in report.operators[0]:
        return {}
    moved: dict[str, int] = {row["path"]: 0 for row in layers}
    for op in report.operators:
        if op["layer"] in moved:
            moved[op["layer"]] += op["bytes_read"] + op["bytes_written"]
    around = nearest_around(moved)
    for path in sorted(moved, key=count_depth, reverse=True):
        outer = around[path]
        if outer is not None:
            moved[outer] += moved[path]
    return moved


def find_places(rows: Iterable[Row]) -> dict[str, int]:
    """Return the places of the rows of layers by their paths."""
    return {row["path"]: index for index, row in enumerate(rows)}


def describe_layers(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the layers as parents (the place of the row around each, -1 for none), names, types and columns."""
    places = find_places(rows)
    nearest = nearest_around(places)
    around = [nearest[row["path"]] for row in rows]
    parents = [-1 if path is None else places[path] for path in around]
    names = [write_layer_name(row["path"], path) for row, path in zip(rows, around, strict=True)]
    keys = [key for key in (rows[0] if rows else ()) if key not in _TREE_COLUMNS and "_share" not in key]
    columns: list[ColumnData] = []
    for key in keys:
        for column in describe_column(key, [row.get(key) for row in rows]):
            signed = find_signs(key, rows)
            if signed:
                column["signed"] = signed
            columns.append(column)
    ranks = {key: rank for rank, key in enumerate(_AT_FIRST)}
    columns.sort(key=lambda column: ranks.get(column["key"], len(ranks)))
    return {
        "parents": parents,
        "names": pack(names),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "columns": columns,
    }


def write_layer_name(path: str, around: str | None) -> str:
    """Return what a layer is called inside the layer around it."""
    return visible(path[len(around) + 1 :] if around else path)


# Columns --------------------------------------------------------------------------------------------------------------

#: Columns that are shown at first, where a report has them. The others are there to be chosen.
_AT_FIRST = (
    "output_shapes",
    "calls",
    "params",
    "macs",
    "flops",
    "forward_seconds",
    "backward_seconds",
    PEAK,
    "missing",
)
#: What is worked out of several columns, and does not add up.
SPEEDS = ("own_intensity", "own_speed")
#: Columns of numbers that do not add up over the layers inside, so that there is no share of a whole.
_NO_SHARE = ("calls", "order", "layers", "own_", "overhead", "share", "flops_per_second", "batch_size", "samples")
_WORDS = {
    "missing": "Left out",
    "seconds": "Time",
    "forward_seconds": "Forward",
    "backward_seconds": "Backward",
    "output_shapes": "Output shape",
    "input_shapes": "Input shape",
    "own_intensity": "Own FLOPs/B",
    "own_speed": "Own FLOP/s",
}


def describe_column(key: str, values: Sequence[Any]) -> Iterator[ColumnData]:
    """Yield a column with what the page must know to show it; none where there is nothing in it.

    The values are numbers in base units, or texts.
    """
    if all(value is None or value == "" or value == () for value in values):
        return
    numeric = all(value is None or is_number(value) for value in values)
    unit, scale = _find_unit(key)
    yield {
        "key": key,
        "title": _write_column_title(key),
        "unit": unit,
        "scale": scale.value,
        "numeric": numeric,
        "share": numeric and not key.startswith(_NO_SHARE),
        "shown": key in _AT_FIRST and any(values),
        "dashes": True,
        "values": pack([make_plain(value) if numeric else _write_text(value) for value in values]),
    }


def find_signs(key: str, rows: Sequence[Row]) -> dict[int, list[Any]]:
    """Return by the index of a row what a count that is a bound is shown as: "≥ " or another sign, and a number."""
    written = {index: write_row_value(row, key) for index, row in enumerate(rows) if f"{key}_low" in row}
    return {index: [sign, number] for index, (sign, number) in written.items() if sign}


def _write_column_title(key: str) -> str:
    """Return the title of a column: in words of the page's own where it has some, else made of the key."""
    return _WORDS.get(key) or visible(write_title(key.removesuffix("_seconds")))


def _find_unit(key: str) -> tuple[str, Scale]:
    if key == "seconds" or key.endswith("_seconds"):
        return "s", Scale.TIME
    if key == "own_intensity":
        return "", Scale.NONE
    return ("B", Scale.IEC) if "bytes" in key else ("", Scale.SI)


def make_plain(value: Any) -> Any:
    """Return a number as JSON can hold it, and as text what JSON has no number for."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _write_text(value: Any) -> str:
    """Return a value in one line: ``[3, 8], [8]`` for two shapes."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        texts = [f"{key} {item}" for key, item in value.items()]
    elif isinstance(value, (tuple, list)):
        texts = [str(list(item) if isinstance(item, tuple) else item) for item in value]
    else:
        texts = [str(value)]
    return visible(", ".join(texts))
