"""The tables beside the tree of layers: layers and types by their own work, operators, and metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.trace.bounds import WORK
from profilerkit.trace.layer_view import PEAK
from profilerkit.trace.rows import TRAFFIC, read_work
from profilerkit.trace.table import Table

from .columns import SPEEDS, Row, describe_column, find_signs, make_plain, write_column_title
from .layer_tree import is_by_layer
from .page_parts import pack

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["list_tables"]


def list_tables(report: Report, layers: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the tables beside the tree of layers: layers by their own cost, types, operators, metrics."""
    operators = report.operators or ()
    if layers:
        yield from _list_layer_tables(layers)
    if operators:
        work = {key: key for key in (*WORK, *TRAFFIC) if key in operators[0]}
        yield _describe_table("By operator", "operator", "operator", _add_up(operators, "operator", work, "calls"))
    for record in report.statuses.values():
        if isinstance(record.value, Table) and record.value and not is_by_layer(record.value):
            yield _describe_table(visible(record.friendly_name), record.value.columns[0], "row", record.value)


def _list_layer_tables(layers: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the tables of layers and of types, each layer without the layers inside; ``layers`` begin at the root.

    Columns get names and titles without ``own_``: "macs" for "own_macs".
    """
    root = layers[0]
    own_keys = {key.removeprefix("own_"): key for key in root if key.startswith("own_") and key not in SPEEDS}
    own_keys = dict(sorted(own_keys.items(), key=lambda item: _is_memory(item[0])))  # work and times come first
    working = [
        layer
        for layer in layers
        if any((layer.get(key) or layer.get(f"{key}_high") or 0) > 0 for key in own_keys.values())
    ]
    working.sort(key=lambda layer: _rank(layer, "own_"))
    if working:
        by_layer = _describe_own_work("layer", [_take_own_work(layer, own_keys) for layer in working], root)
        yield {**by_layer, "lead": "Each layer without the layers inside it."}
    types = _add_up(layers, "type", own_keys, "layers")
    if len(types) > 1:
        yield _describe_own_work("type", types, root)


def _describe_own_work(thing: str, rows: Sequence[Row], whole: Row) -> dict[str, Any]:
    """Return the table of layers or of types; the two ends of a count are the sign before it, and no columns."""
    table = _describe_table(f"By {thing}", thing, thing, rows, whole)
    columns = [column for column in table["rows"]["columns"] if not column["key"].endswith(("_low", "_high"))]
    for column in columns:
        column["signed"] = find_signs(column["key"], rows)
    table["rows"]["columns"] = columns
    return table


def _take_own_work(layer: Row, own_keys: Mapping[str, str]) -> dict[str, Any]:
    own_work = {key: layer.get(own_key) for key, own_key in own_keys.items()}
    return {"layer": layer["path"] or "(model)", "type": layer["type"], **own_work}


def _is_memory(key: str) -> bool:
    return key.endswith("_bytes")


def _add_up(rows: Iterable[Row], by: str, columns: Mapping[str, str], count: str) -> list[dict[str, Any]]:
    """Return a row for each value of the column ``by``: how many rows have it, as ``count``, and sums of others.

    ``columns`` maps each sum to the column that is summed. A sum is None if one of its values is not known.
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


def _rank(row: Row, prefix: str = "") -> list[float]:
    """Return the key by which rows are sorted: most time first, then most work."""
    return [-(row.get(f"{prefix}{key}") or 0) for key in ("forward_seconds", "macs", "flops")]


def _describe_table(title: str, name: str, thing: str, rows: Sequence[Row], whole: Row | None = None) -> dict[str, Any]:
    """Return a table of the page, whose rows are named by the column ``name``.

    ``thing`` is the kind of a row: "layer". Shares are shares of the row ``whole``; None for a table without shares.
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
        "heading": write_column_title(name),
        "rows": {"names": names, "columns": columns},
    }
