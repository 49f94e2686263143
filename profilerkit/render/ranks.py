"""The rows of any table by rank, the largest first, and the words for that in titles and in notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..count_text import format_count
from ..times.layer_times import LayerTimeTable
from ..times.wording import format_noise
from ..trace.layer_table import is_innermost
from ..trace.table import Table
from .values import Column, share_text, write_row_value

__all__ = ["Ranked", "describe_first_row", "rank_rows", "write_ranked_title"]

_Row: TypeAlias = Mapping[str, Any]

#: The columns that rank rows, the first that a table has; each with a superlative for the first row.
_SUPERLATIVES = {
    "own_forward_seconds": "slowest",
    "seconds": "slowest",
    "predicted_seconds": "slowest",
    "own_macs": "one with the most MACs",
    "macs": "one with the most MACs",
    "own_peak_bytes": "largest at the peak",
    "params": "largest",
}
#: The noise of the slowest layer is told beside its time if it is larger: then another layer may be the slowest.
_MUCH_NOISE = 0.2
#: The columns that can name a row; the first that it has does.
_LABELS = ("path", "operator", "layer", "kernel", "type")


class Ranked(NamedTuple):
    """Rows by rank, and the column that they are ranked by; "" if nothing ranks them, so that they stand as before."""

    by: str
    rows: Sequence[_Row]


def rank_rows(rows: Iterable[_Row], by: str = "") -> Ranked:
    """Return rows by rank, the largest first; in their own order if no column ranks them.

    A layer around others is left out if the column counts the layers inside too: it would only repeat them. In a table
    of such layers alone, none is.

    Args:
        rows: The rows of a table.
        by: The column; by default the first column in `_SUPERLATIVES` with values in the table.
    """
    listed = list(rows)
    by = by or _find_ranking(listed)
    if not by or by not in listed[0]:
        return Ranked("", listed)
    inner = [row for row in listed if by.startswith("own_") or is_innermost(row, by)]
    return Ranked(by, sorted(inner or listed, key=lambda row: -(row[by] or 0)))


def write_ranked_title(title: str, ranked: Ranked, shown: int, total: int) -> str:
    """Return a title that says which rows of a table are shown."""
    if not ranked.by:
        return f"{title}, the first {shown} of {total}"
    return f"{title}, the {shown} of {total} with the most {Column.of(ranked.by).in_a_sentence}"


def _find_ranking(rows: Sequence[_Row]) -> str:
    first = rows[0] if rows else {}
    return next((name for name in _SUPERLATIVES if name in first and any(row[name] for row in rows)), "")


def describe_first_row(table: Table) -> str:
    """Return the first entry of a ranked table in words: "the slowest of 217 layers is conv1 (Conv2d), 3.1 ms".

    The slowest layer is the layer with the most own forward time, as in every ranking. If the table has backward times,
    the layer with the most own backward time is named too.
    """
    ranked = rank_rows(table)
    if not _has_top_value(ranked):
        return ""
    rows = format_count(len(table), "layer" if "path" in ranked.rows[0] else "row")
    first = f"the {_SUPERLATIVES[ranked.by]} of {rows} is {_write_top_row(table, ranked)}"
    if "forward" not in ranked.by:
        return first
    backward = rank_rows(table, ranked.by.replace("forward", "backward"))
    if not _has_top_value(backward):
        return first
    return f"{first} of its own forward; backward it is {_write_top_row(table, backward)}"


def _has_top_value(ranked: Ranked) -> bool:
    """Return whether the rows are ranked at all, and the first of them has something to show."""
    return bool(ranked.by and ranked.rows[0][ranked.by])


def _write_top_row(table: Table, ranked: Ranked) -> str:
    """Return the first of ranked rows with its value, and the share of the whole model if it is known."""
    row, by = ranked.rows[0], ranked.by
    label = next((str(row[name]) for name in _LABELS if row.get(name)), "the model itself")
    layer = f" in {row['layer']}" if "operator" in row and row.get("layer") else ""
    kind = f" ({row['type']})" if row.get("path") and row.get("type") else ""
    sign, number = write_row_value(row, by)
    value = f"{sign}{Column.of(by).show(number)}{_write_large_noise(table, row, by)}"
    return f"{label}{layer}{kind}, {value}{'' if sign else _write_share(table, row, by)}"


def _write_large_noise(table: Table, row: Mapping[str, Any], by: str) -> str:
    """Return how far the time of a layer may be off, if that is much."""
    if not isinstance(table, LayerTimeTable):
        return ""
    noise = table.measurement(row["path"], by).noise
    return f" {format_noise(noise, digits=0)}" if noise > _MUCH_NOISE else ""


def _write_share(table: Table, row: Mapping[str, Any], by: str) -> str:
    """Return which part of the whole model's value is a layer's own."""
    root = next((candidate for candidate in table if candidate.get("path") == ""), {})
    whole = root.get(by.removeprefix("own_"))
    return f" ({share_text(row[by] / whole)})" if by.startswith("own_") and whole else ""
