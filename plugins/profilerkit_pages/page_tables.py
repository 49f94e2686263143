"""The tables of a page beside the tree of layers: layers by what they take themselves, types, operators, metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.piping.outcome import is_number
from profilerkit.render.grids import visible
from profilerkit.trace.bounds import WORK
from profilerkit.trace.layer_view import PEAK
from profilerkit.trace.operator_rows import TRAFFIC, read_work
from profilerkit.trace.table import Table

from .page_columns import SPEEDS, describe_column, make_plain, write_column_title
from .page_layers import Row, is_by_layer
from .page_parts import pack

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["list_tables"]


def list_tables(report: Report, layers: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the tables beside that of the layers: layers by what they take themselves, types, operators, metrics."""
    root = layers[0] if layers else {}
    own_keys = {key.removeprefix("own_"): key for key in root if key.startswith("own_") and key not in SPEEDS}
    own_keys = dict(sorted(own_keys.items(), key=lambda item: _is_memory(item[0])))  # work and times come first
    takers = [row for row in layers if any((row.get(key) or 0) > 0 for key in own_keys.values())]
    if takers:
        named = ({"layer": row["path"] or "(model)", "type": row["type"], **_take_own(row, own_keys)} for row in takers)
        by_layer = _describe_table("By layer", "layer", "layer", sorted(named, key=_rank), root)
        yield {**by_layer, "lead": "Each layer without the layers inside it."}
    types = _add_up(layers, "type", own_keys, "layers")
    if len(types) > 1:
        yield _describe_table("By type", "type", "type", types, root)
    operators = report.operators or ()
    work = {key: key for key in (*WORK, *TRAFFIC) if operators and key in operators[0]}
    totals = _add_up(operators, "operator", work, "calls")
    if totals:
        yield _describe_table("By operator", "operator", "operator", totals)
    for record in report.statuses.values():
        if isinstance(record.value, Table) and record.value and not is_by_layer(record.value):
            yield _describe_table(visible(record.friendly_name), record.value.columns[0], "row", record.value)


def _is_memory(key: str) -> bool:
    return key.endswith("_bytes")


def _add_up(rows: Iterable[Row], by: str, columns: Mapping[str, str], count: str) -> list[dict[str, Any]]:
    """Return a row for each value of a column, with how many rows have it, and the sums of others, if all are known."""
    sums: dict[str, dict[str, Any]] = {}
    for row in rows:
        total = sums.setdefault(str(row[by]), {by: str(row[by]), count: 0, **dict.fromkeys(columns, 0)})
        total[count] += 1
        for name, key in columns.items():
            value = read_work(row, key)
            is_known = total[name] is not None and is_number(value) and math.isfinite(value)
            total[name] = total[name] + value if is_known else None
    return sorted(sums.values(), key=_rank)


def _take_own(row: Row, own_keys: Mapping[str, str]) -> dict[str, Any]:
    """Return what a layer takes itself, without the layers inside, by the names of the columns that include them."""
    return {key: row.get(own_key) for key, own_key in own_keys.items()}


def _rank(row: Row) -> list[float]:
    """Return what rows are sorted by: most time first, or where there is none most work."""
    return [-(row.get(key) or 0) for key in ("forward_seconds", "macs", "flops")]


def _describe_table(title: str, name: str, thing: str, rows: Sequence[Row], whole: Row | None = None) -> dict[str, Any]:
    """Return a table of the page, whose rows are called by a column's values; ``whole`` has what shares are of."""
    keys = [key for key in rows[0] if key != name]
    columns = [column for key in keys for column in describe_column(key, [row.get(key) for row in rows])]
    names = pack([visible(str(row.get(name))) for row in rows])
    for column in columns:
        is_part = _is_memory(column["key"]) and column["key"] != PEAK and whole is not None
        column["shown"] = not (column["key"].startswith("bytes_") or is_part)
        total = whole.get(column["key"]) if whole else None
        if column["share"] and total is not None and is_number(total) and total > 0:
            column["whole"] = make_plain(total)
    return {
        "title": title,
        "thing": thing,
        "heading": write_column_title(name),
        "rows": {"names": names, "columns": columns},
    }
