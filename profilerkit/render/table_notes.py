"""Notes about a table of layers or operators: its first row by rank, and times that do not add up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..count_text import format_count
from ..times.layer_times import LayerTimeTable
from ..times.wording import format_noise
from ..trace.layer_table import is_by_layer
from ..trace.table import Table
from .ranks import SUPERLATIVES, Ranked, rank_rows
from .values import Column, share_text, write_row_value

__all__ = ["describe_gap", "top_row_note"]

#: The times of layers may add up to the model's time but for this part of it; more is told.
_GAP = 0.1
#: The noise of the slowest layer is told beside its time if it is larger: then another layer may be the slowest.
_MUCH_NOISE = 0.2
#: The columns that can name a row; the first that it has does.
_LABELS = ("path", "operator", "layer", "kernel", "type")


def top_row_note(table: Table) -> str:
    """Return the first entry of a ranked table in words: "the slowest of 217 layers is conv1 (Conv2d), 3.1 ms".

    The slowest layer is the layer with the most own forward time, as in every ranking. If the table has backward times,
    the layer with the most own backward time is named too.
    """
    ranked = rank_rows(table)
    if not _has_top_value(ranked):
        return ""
    rows = format_count(len(table), "layer" if "path" in ranked.rows[0] else "row")
    first = f"the {SUPERLATIVES[ranked.by]} of {rows} is {_write_top_row(table, ranked)}"
    if "forward" not in ranked.by:
        return first
    backward = rank_rows(table, ranked.by.replace("forward", "backward"))
    if not _has_top_value(backward):
        return first
    return f"{first} of its own forward; backward it is {_write_top_row(table, backward)}"


def _has_top_value(ranked: Ranked) -> bool:
    """Return whether the rows are ranked at all, and the first of them has something to show."""
    return bool(ranked.by and ranked.rows[0][ranked.by])


def describe_gap(table: Table) -> str:
    """Say which part of the model's time the own times of its layers add up to, if that is far from all of it.

    Each is the median of its own samples, so that they never add up exactly; a large gap comes from noise.
    """
    whole = next((row.get("forward_seconds") for row in table if row.get("path") == ""), None)
    timed = [row for row in table if row.get("calls") != 0]  # the time of others is in the layers around them
    if not is_by_layer(table) or not whole or any(row.get("own_forward_seconds") is None for row in timed):
        return ""
    share = sum(row.get("own_forward_seconds") or 0.0 for row in table) / whole
    if abs(share - 1) < _GAP:
        return ""
    return (
        f"noisy: the own times of layers, a median each, add up to {share_text(share)} of the model's; measure longer"
    )


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
