"""The rows of a table by rank: by which column, and how a title says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..trace.layer_table import is_innermost
from .columns import Column

__all__ = ["SUPERLATIVES", "Ranked", "rank_rows", "write_ranked_title"]

#: The columns that rows are ranked by, the first that a table has; and what the first row then is.
SUPERLATIVES = {
    "own_forward_seconds": "slowest",
    "seconds": "slowest",
    "predicted_seconds": "slowest",
    "own_macs": "one with the most MACs",
    "macs": "one with the most MACs",
    "own_peak_bytes": "largest at the peak",
    "params": "largest",
}


class Ranked(NamedTuple):
    """Rows by rank, and the column that they are ranked by; an empty one where they stand as they were."""

    by: str
    rows: Sequence[Mapping[str, Any]]


def rank_rows(rows: Iterable[Mapping[str, Any]], by: str = "") -> Ranked:
    """Return rows by rank, those with most first; as they are where no column ranks them.

    Of layers that are ranked by a column with the layers inside, those around others are left out.

    Args:
        rows: The rows of a table.
        by: The column; by default the first by which such tables are ranked.
    """
    listed = list(rows)
    by = by or _find_ranking(listed)
    if not by or by not in listed[0]:
        return Ranked("", listed)
    inner = [row for row in listed if by.startswith("own_") or is_innermost(row, by)]
    return Ranked(by, sorted(inner, key=lambda row: -(row[by] or 0)))


def write_ranked_title(title: str, ranked: Ranked, shown: int, total: int) -> str:
    """Return a title that says which rows of a table are shown."""
    if not ranked.by:
        return f"{title}, the first {shown} of {total}"
    return f"{title}, the {shown} of {total} with the most {Column.of(ranked.by).in_a_sentence}"


def _find_ranking(rows: Sequence[Mapping[str, Any]]) -> str:
    first = rows[0] if rows else {}
    return next((name for name in SUPERLATIVES if name in first and any(row[name] for row in rows)), "")
