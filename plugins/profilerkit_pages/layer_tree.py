"""The layers of a report as a tree: a row for each layer with its name and all its values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.trace.layer_paths import nearest_around
from profilerkit.trace.layer_table import LayerTable, is_by_layer
from profilerkit.trace.rows import TRAFFIC

from .columns import AT_FIRST, Row, describe_columns
from .page_parts import pack

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["describe_layers", "find_places", "merge_rows", "write_layer_name"]

#: Columns from which the page builds its tree of layers.
_TREE_COLUMNS = {"path", "type", "depth", "is_leaf"}


def merge_rows(report: Report) -> list[dict[str, Any]]:
    """Return a row for each layer with its values in all tables by layer, and the bytes that its operators move.

    If tables differ in a value, the value of the trace is taken.
    """
    traced = report.layers or LayerTable(())
    measured = [record.value for record in report.statuses.values() if is_by_layer(record.value)]
    columns = [column for table in (*measured, traced) for column in table.columns]
    rows = {row["path"]: dict[str, Any].fromkeys(columns) for table in (traced, *measured) for row in table}
    for table in (*measured, traced):
        for row in table:
            rows[row["path"]] |= row
    for row in rows.values():
        traffic: list[Any] = [row.get(column) for column in TRAFFIC]
        row["bytes_moved"] = sum(traffic) if all(map(is_number, traffic)) else None
    return list(rows.values())


def find_places(rows: Iterable[Row]) -> dict[str, int]:
    """Return the places of the rows of layers by their paths."""
    return {row["path"]: index for index, row in enumerate(rows)}


def describe_layers(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the layers as parents (the place of the row around each, -1 for none), names, types and columns."""
    places = find_places(rows)
    nearest = nearest_around(places)
    around = [nearest[path] for path in places]
    keys = [key for key in (rows[0] if rows else ()) if key not in _TREE_COLUMNS and "_share" not in key]
    columns = describe_columns(keys, rows)
    ranks = {key: rank for rank, key in enumerate(AT_FIRST)}
    columns.sort(key=lambda column: ranks.get(column["key"], len(ranks)))
    return {
        "parents": [-1 if outer is None else places[outer] for outer in around],
        "names": pack(list(map(write_layer_name, places, around))),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "columns": columns,
    }


def write_layer_name(path: str, around: str | None) -> str:
    """Return the name of a layer inside the layer around it."""
    return visible(path[len(around) + 1 :] if around else path)
