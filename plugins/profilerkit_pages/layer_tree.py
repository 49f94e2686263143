"""The layers of a report as a tree: a row for each layer with its name and all its values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.trace.bounds import WORK
from profilerkit.trace.layer_paths import nearest_around
from profilerkit.trace.records import LayerTable
from profilerkit.trace.rows import TRAFFIC

from .columns import AT_FIRST, Row, describe_column, find_signs
from .page_parts import pack

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["describe_layers", "find_places", "is_by_layer", "merge_rows", "write_layer_name"]

#: Columns from which the page builds its tree of layers.
_TREE_COLUMNS = {"path", "type", "depth", "is_leaf"}


def merge_rows(report: Report) -> list[dict[str, Any]]:
    """Return the rows of the layers with the measured values of each, and the bytes that its operators move."""
    measured = [record.value for record in report.statuses.values() if is_by_layer(record.value)]
    base = next((table for table in (report.layers, *measured) if table is not None), LayerTable(()))
    measured_by_path = [{row["path"]: row for row in table} for table in measured]
    merged = []
    for row in base:
        whole: dict[str, Any] = {}
        for table in measured_by_path:
            whole |= table.get(row["path"], {})
        whole |= row
        if all(is_number(whole.get(column)) for column in TRAFFIC):
            whole["bytes_moved"] = sum(whole[column] for column in TRAFFIC)
        merged.append(whole)
    return _mark_own_work(merged, report.operators or ())


def is_by_layer(value: Any) -> bool:
    """Return whether a value is a table with one row for each layer: not for each call of one, nor for each type."""
    if not isinstance(value, LayerTable):
        return False
    paths = [row.get("path") for row in value]
    return None not in paths and len(set(paths)) == len(paths)


def _mark_own_work(layers: Iterable[Row], operators: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the layers with their own work: None, not a smaller number, if an operator is not counted."""
    uncounted = {operator["layer"] for operator in operators if operator.get("missing")}
    unknown = {f"own_{column}": None for column in WORK}
    return [{**layer, **(unknown if layer["path"] in uncounted else {})} for layer in layers]


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
    columns = [
        column for key in keys for column in describe_column(key, [row.get(key) for row in rows], find_signs(key, rows))
    ]
    ranks = {key: rank for rank, key in enumerate(AT_FIRST)}
    columns.sort(key=lambda column: ranks.get(column["key"], len(ranks)))
    return {
        "parents": parents,
        "names": pack(names),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "columns": columns,
    }


def write_layer_name(path: str, around: str | None) -> str:
    """Return the name of a layer inside the layer around it."""
    return visible(path[len(around) + 1 :] if around else path)
