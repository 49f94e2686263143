"""The layers of a report as a tree: a row for each layer with its name and all its values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.results.report import Report
from profilerkit.trace.columns import ENDS, TRAFFIC
from profilerkit.trace.layer_paths import nearest_around
from profilerkit.trace.layer_table import LayerTable, is_by_layer

from .columns import AT_FIRST, Row, describe_columns
from .page_parts import pack

#: Columns from which the page builds its tree of layers.
_TREE_COLUMNS = {"path", "type", "depth", "is_leaf"}
_NOTHING = (None, "", ())


def merge_rows(report: Report) -> list[dict[str, Any]]:
    """Return a row for each layer with its values in all tables by layer, and the bytes that its operators move.

    If metrics have other values than the trace, or than a metric before, in a column of the same name, the column is
    named with its metric: ``seconds (probe)``.
    """
    tables = {"": report.layers or LayerTable(())}
    tables |= {record.key: record.value for record in report.statuses.values() if is_by_layer(record.value)}
    merged: dict[str, dict[str, Any]] = {}
    for metric, table in tables.items():
        rows = {row["path"]: _add_traffic(row) for row in table}
        names = _name_columns(rows, merged, metric)
        for path, row in rows.items():
            layer = merged.setdefault(path, {})
            layer |= {names[column]: row[column] for column in row if layer.get(names[column]) in _NOTHING}
    columns = dict.fromkeys(name for layer in merged.values() for name in layer)
    return [{**dict.fromkeys(columns), **layer} for layer in merged.values()]


def _add_traffic(row: Row) -> Row:
    """Return a row with the bytes that are read and written together, unless it has a column of that name itself."""
    traffic: list[Any] = [row.get(column) for column in TRAFFIC]
    moved = sum(traffic) if all(map(is_number, traffic)) else None
    return {**row, "bytes_moved": row.get("bytes_moved", moved)}


def _name_columns(rows: Mapping[str, Row], merged: Mapping[str, Row], metric: str) -> dict[str, str]:
    """Return the names of a metric's columns on the page: a count that differs, and its ends, are named with it.

    ``rows`` and ``merged`` are its layers, and those of the metrics before, by their paths. A layer without a value
    does not differ.
    """
    pairs = [(row, merged.get(path, {})) for path, row in rows.items()]
    columns = next(iter(rows.values()), {})
    differing = {
        _find_count(name)
        for name in columns
        if name not in _TREE_COLUMNS
        and any(
            row[name] != before[name]
            for row, before in pairs
            if row[name] not in _NOTHING and before.get(name) not in _NOTHING
        )
    }
    names = {}
    for column in columns:
        count = _find_count(column)
        names[column] = f"{count} ({metric}){column.removeprefix(count)}" if count in differing else column
    return names


def _find_count(column: str) -> str:
    """Return the count that a column is an end of, ``macs`` of ``macs_low``; any other column itself."""
    return re.sub(f"({'|'.join(ENDS)})$", "", column)


def find_places(rows: Iterable[Row]) -> dict[str, int]:
    """Return the places of the rows of layers by their paths."""
    return {row["path"]: index for index, row in enumerate(rows)}


def describe_layers(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the layers as parents (the place of the row around each, -1 for none), names, types and columns."""
    places = find_places(rows)
    nearest = nearest_around(places)
    around = [nearest[path] for path in places]
    names = rows[0] if rows else {}
    keys = [name for name in names if name not in _TREE_COLUMNS and not _is_share(name, names)]
    columns = describe_columns(keys, rows)
    ranks = {key: rank for rank, key in enumerate(AT_FIRST)}
    columns.sort(key=lambda column: ranks.get(column["key"], len(ranks)))
    return {
        "parents": [-1 if outer is None else places[outer] for outer in around],
        "names": pack(list(map(write_layer_name, places, around))),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "columns": columns,
    }


def _is_share(name: str, names: Iterable[str]) -> bool:
    """Return whether a column has the shares of another one, which the page computes: ``macs_share (probe)``."""
    return "_share" in name and re.sub(r"_share(?= |$)", "", name, count=1) in {*names} - {name}


def write_layer_name(path: str, around: str | None) -> str:
    """Return the name of a layer inside the layer around it."""
    return visible(path[len(around) + 1 :] if around else path)
