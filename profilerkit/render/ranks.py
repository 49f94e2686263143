"""The rows of any table by rank, the largest first, and the words for that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..trace.layer_table import is_innermost
from .values import Column

__all__ = ["SUPERLATIVES", "Ranked", "rank_rows", "write_ranked_title"]

_Row: TypeAlias = Mapping[str, Any]

#: The columns that rank rows, the first that a table has; each with a superlative for the first row.
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
    """Rows by rank, and the column that they are ranked by; "" if nothing ranks them, so that they stand as before."""

    by: str
    rows: Sequence[_Row]


def rank_rows(rows: Iterable[_Row], by: str = "") -> Ranked:
    """Return rows by rank, the largest first; in their own order if no column ranks them.

    A layer around others is left out if the column counts the layers inside too: it would only repeat them. In a table
    of such layers alone, none is.

    Args:
        rows: The rows of a table.
        by: The column; by default the first column in `SUPERLATIVES` with values in the table.
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
    return next((name for name in SUPERLATIVES if name in first and any(row[name] for row in rows)), "")
