"""How deep layers lie, and which of them a depth that people type means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["find_deepest", "within_depth"]


def find_deepest(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return the depth of the deepest layer; 0 for rows without depths."""
    return max((row.get("depth") or 0 for row in rows), default=0)


def within_depth(rows: Iterable[Mapping[str, Any]], depth: int | None) -> list[Mapping[str, Any]]:
    """Return the rows of layers that lie no deeper; all of them for None and for -1, the innermost.

    >>> within_depth([{"depth": 0}, {"depth": 1}], 0)
    [{'depth': 0}]
    """
    return [row for row in rows if depth is None or depth < 0 or (row.get("depth") or 0) <= depth]
