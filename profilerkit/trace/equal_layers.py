"""Which layers of a model are equal: of one type, with equal counts, and with equal layers inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .bounds import WORK
from .layer_paths import count_depth
from .layer_view import PEAK, group_children

__all__ = ["number_kinds"]

#: The columns in which equal layers have the same value.
_COUNTS = ("type", "params", *WORK, "calls", PEAK)


def number_kinds(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return by path a number that equal layers share: of one type, with equal counts, and equal layers inside."""
    children = group_children(rows)
    numbers: dict[tuple[Any, ...], int] = {}
    kinds: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: -count_depth(row["path"])):  # those inside before those around them
        path = row["path"]
        inside = tuple((child["path"][len(path) :], kinds[child["path"]]) for child in children.get(path, ()))
        counts = tuple(row.get(column) for column in _COUNTS)
        kinds[path] = numbers.setdefault((*counts, inside), len(numbers))
    return kinds
