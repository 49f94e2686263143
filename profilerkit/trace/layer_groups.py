"""Layers in groups: those right inside each layer, and those that are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .bounds import WORK
from .layer_paths import count_depth, nearest_around
from .layer_view import PEAK

__all__ = ["group_children", "number_kinds"]

#: The columns in which equal layers have the same value.
_COUNTS = ("type", "params", *WORK, "calls", PEAK)


def group_children(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return by path the layers right inside each layer, the first row being the root.

    A layer whose outer layer is not among the rows counts for the nearest one around it that is.
    """
    around = nearest_around(row["path"] for row in rows)
    inside: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows[1:]:
        inside.setdefault(around[row["path"]] or "", []).append(row)
    return inside


def number_kinds(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return by path a number that equal layers share: of one type, with equal counts, and equal layers inside."""
    children = group_children(rows)
    numbers: dict[tuple[Any, ...], int] = {}
    kinds: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: -count_depth(row["path"])):  # the layers inside a layer before that layer
        path = row["path"]
        inside = tuple((child["path"][len(path) :], kinds[child["path"]]) for child in children.get(path, ()))
        counts = tuple(row.get(column) for column in _COUNTS)
        kinds[path] = numbers.setdefault((*counts, inside), len(numbers))
    return kinds
