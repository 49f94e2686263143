"""The tables beside the tree of layers: layers and types by their own work, operators, and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.results.report import Report
from profilerkit.times.operator_totals import operator_totals
from profilerkit.trace.columns import ENDS
from profilerkit.trace.layer_table import is_by_layer
from profilerkit.trace.layer_view import PEAK
from profilerkit.trace.records import LayerTable
from profilerkit.trace.table import Table

from .columns import SPEEDS, Row, describe_columns, make_plain, write_column_title
from .page_parts import pack


def list_tables(report: Report, layers: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the tables beside the tree of layers: layers by their own cost, types, operators, metrics.

    ``layers`` begin at the root.
    """
    if layers:
        yield from _list_layer_tables(layers)
    if report.operators:
        operators = sorted(operator_totals(report.operators), key=_rank)
        phases = {operator["phase"] for operator in operators}
        keys = [key for key in operators[0] if key != "phase" or len(phases) > 1]
        yield _describe_table("By operator", "operator", [{key: row[key] for key in keys} for row in operators])
    for record in report.statuses.values():
        if isinstance(record.value, Table) and record.value and not is_by_layer(record.value):
            yield _describe_table(visible(record.friendly_name), "row", record.value)


def _list_layer_tables(layers: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the tables of layers and of types, each layer without the layers inside it.

    Columns have names and titles without ``own_``: "macs" for "own_macs".
    """
    root = layers[0]
    own_keys = {key.removeprefix("own_"): key for key in root if key.startswith("own_") and key not in SPEEDS}
    rows = [
        {
            "layer": layer["path"] or "(model)",
            "type": layer["type"],
            **{key: layer[own_key] for key, own_key in own_keys.items()},
        }
        for layer in layers
    ]
    working = [row for row in rows if any((row[key] or row.get(f"{key}_high") or 0) > 0 for key in own_keys)]
    if working:
        table = _describe_table("By layer", "layer", sorted(working, key=_rank), root)
        yield {**table, "lead": "Each layer without the layers inside it."}
    types = sorted(LayerTable(layers).by_type(), key=_rank)
    if len(types) > 1:
        yield _describe_table("By type", "type", types, root)


def _find_place(key: str) -> int:
    """Return the place of a column of layers or types: what they are, their times, their work, their memory."""
    if key in ("type", "layers", "calls"):
        return 0
    if key.endswith("seconds"):
        return 1
    return 3 if _is_memory(key) else 2


def _is_memory(key: str) -> bool:
    return key.endswith("_bytes")


def _rank(row: Row) -> list[float]:
    """Return the key by which rows are sorted: most time first, then most work."""
    return [-(row.get(key) or 0) for key in ("forward_seconds", "macs", "flops")]


def _describe_table(title: str, thing: str, rows: Sequence[Row], whole: Row | None = None) -> dict[str, Any]:
    """Return a table of the page, whose rows are named by their first column.

    ``thing`` is the kind of a row: "layer". Shares are shares of the row ``whole``, or of the sum of all rows if it is
    more, because weights that layers share count in each of them. ``whole`` is None for a table without shares.
    """
    name, *keys = rows[0]
    columns = describe_columns(keys if whole is None else sorted(keys, key=_find_place), rows)
    for column in columns:
        key = column["key"]
        column["shown"] = _is_shown(key, is_of_layers=whole is not None)
        total: Any = None if whole is None else whole.get(key)
        if column["share"] and is_number(total) and total > 0:
            column["whole"] = make_plain(max(total, sum(row[key] for row in rows if is_number(row[key]))))
    return {
        "title": title,
        "thing": thing,
        "heading": write_column_title(name),
        "rows": {"names": pack([visible(str(row.get(name))) for row in rows]), "columns": columns},
    }


def _is_shown(key: str, *, is_of_layers: bool) -> bool:
    """Return whether a column is shown at first: no traffic, no ends of bounds, and of memory of layers the peak."""
    if key.startswith("bytes_") or key.endswith(ENDS):
        return False
    return key == PEAK or not (is_of_layers and _is_memory(key))
