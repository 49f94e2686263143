"""Sentences on a table of layers or operators: its first row by rank, and what the times of layers leave out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..times.layer_times import LayerTimeTable
from ..times.wording import format_noise
from .columns import Column, share_text
from .ranking import SUPERLATIVES, Ranked, rank_rows

if TYPE_CHECKING:
    from ..trace.table import Table

__all__ = ["describe_gap", "top_row_note"]

#: From which part of the model's time on it is said that the times of layers do not add up to it.
_GAP = 0.1
#: Noise of the slowest layer that is told beside its time: at half of it another may be slower.
_MUCH_NOISE = 0.2
#: The columns that a row is called by, the first that it has.
_LABELS = ("path", "operator", "layer", "kernel", "type")


def top_row_note(table: Table) -> str:
    """Return what stands first in a ranked table, in words: "the slowest of 217 layers is conv1 (Conv2d), 3.1 ms".

    The slowest layer is the one with the most own forward time, as in every ranking. The one with the most own backward
    time stands behind it where there is such a time.
    """
    ranked = rank_rows(table)
    if not ranked.by or not ranked.rows[0][ranked.by]:
        return ""
    things = "layers" if "path" in ranked.rows[0] else "rows"
    first = f"the {SUPERLATIVES[ranked.by]} of {len(table)} {things} is {_write_top_row(table, ranked)}"
    backward = rank_rows(table, ranked.by.replace("forward", "backward"))
    if backward.by in ("", ranked.by) or not backward.rows[0][backward.by]:
        return first
    return f"{first} of its own forward; backward it is {_write_top_row(table, backward)}"


def describe_gap(table: Table) -> str:
    """Say how much of the model's time the own times of its layers add up to, where that is far from all of it.

    Each is the median of its own samples, and so they do not add up exactly: where much is missing, times are noisy.
    """
    whole = next((row.get("forward_seconds") for row in table if row.get("path") == ""), None)
    if not whole or any(row.get("own_forward_seconds") is None for row in table):
        return ""
    share = sum(row["own_forward_seconds"] for row in table) / whole
    if abs(share - 1) < _GAP:
        return ""
    return (
        f"noisy: the own times of layers, a median each, add up to {share_text(share)} of the model's; measure longer"
    )


def _write_top_row(table: Table, ranked: Ranked) -> str:
    """Return the first of ranked rows with its value, and the share of the whole model where that is known."""
    row, by = ranked.rows[0], ranked.by
    label = next((str(row[name]) for name in _LABELS if row.get(name)), "the model itself")
    where = f" in {row['layer']}" if "operator" in row and row.get("layer") else ""
    kind = f" ({row['type']})" if row.get("path") and row.get("type") else ""
    root = next((one for one in table if one.get("path") == ""), {})
    whole = root.get(by.removeprefix("own_")) if by.startswith("own_") else None
    share = f" ({share_text(row[by] / whole)})" if whole else ""
    return f"{label}{where}{kind}, {Column.of(by).show(row[by])}{_write_large_noise(table, row, by)}{share}"


def _write_large_noise(table: Table, row: Mapping[str, Any], by: str) -> str:
    """Return how far the time of a layer may be off, where that is much: then another layer may be the slowest."""
    if not isinstance(table, LayerTimeTable):
        return ""
    noise = table.measurement(row["path"], by).noise
    return f" {format_noise(noise, digits=0)}" if noise > _MUCH_NOISE else ""
