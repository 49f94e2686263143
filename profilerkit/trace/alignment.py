"""The layers of two models side by side: by path and type where both have them, else by type and order."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from .records import LayerTable
from .rows import nearest_around
from .table import Table

if TYPE_CHECKING:
    from ..results.report import Report

__all__ = ["VALUES", "aligned"]

#: The columns that are set side by side.
VALUES = ("params", "macs", "flops", "own_macs", "own_flops")

Row = Mapping[str, Any]

#: Of more layers inside one layer, those of the one model times those of the other, the order is not looked into.
_MOST_PAIRS = 1_000_000


def aligned(reference: Report, other: Report) -> Table:
    """Return one row for each layer of either model, in the order of the reference.

    Layers of the same path and type are one row, whatever the layers around them are. The others are matched, inside
    layers that are matched themselves, by name and type, then by type in order, as a line-by-line comparison of two
    texts does; frameworks that differ in case alone (``Conv2d``, ``Conv2D``) agree. What is left was removed or added.

    The columns: ``change`` ("same", "changed", "removed", "added"), ``path`` (the other's where the reference has no
    such layer), ``other_path``, ``type``, ``other_type``, ``depth``, ``is_leaf``, and for each value (``params``,
    ``macs``, ...) what the reference has, what the other has (``other_macs``), and the difference
    (``macs_difference``), None where one lacks the layer.

    Raises `ValueError` where one of the reports holds no layers.
    """
    return Table(_rows(_layers(reference), _layers(other)))


def _layers(report: Report) -> LayerTable:
    if report.layers is None:
        raise ValueError(f"the report of {report.name} holds no layers, so that there is nothing to align")
    return report.layers


def _rows(reference: LayerTable, other: LayerTable) -> Iterator[Row]:
    partner = _partners(reference, other)
    theirs = {row["path"]: row for row in other}
    taken = set(partner.values())
    order = [row["path"] for row in other]
    places = {path: place for place, path in enumerate(order)}
    place = 0
    for row in reference:
        match = partner.get(row["path"])
        if match is not None:
            end = places[match]
            yield from (_row(theirs[path], None, theirs[path]) for path in order[place:end] if path not in taken)
            place = max(place, end + 1)
        yield _row(row, row, None if match is None else theirs[match])
    yield from (_row(theirs[path], None, theirs[path]) for path in order[place:] if path not in taken)


def _row(shown: Row, mine: Row | None, theirs: Row | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "change": "added" if mine is None else "removed" if theirs is None else "same",
        "path": shown["path"],
        "other_path": theirs["path"] if theirs else None,
        "type": shown["type"],
        "other_type": theirs["type"] if theirs else None,
        "depth": shown["depth"],
        "is_leaf": shown["is_leaf"],
    }
    for column in VALUES:
        first, second = (None if side is None else side.get(column) for side in (mine, theirs))
        difference = None if first is None or second is None else second - first
        row |= {column: first, f"other_{column}": second, f"{column}_difference": difference}
        if difference and row["change"] == "same":
            row["change"] = "changed"
    return row


def _partners(reference: LayerTable, other: LayerTable) -> dict[str, str]:
    """Return the path of the layer in the other model by that in the reference, for those that are matched."""
    kinds = {row["path"]: _kind(row) for row in other}
    partner = {row["path"]: row["path"] for row in reference if kinds.get(row["path"]) == _kind(row)}
    if "" in kinds and any(row["path"] == "" for row in reference):
        partner[""] = ""  # the models themselves, of whatever types
    mine, theirs = _inside(reference, partner), _inside(other, partner)
    waiting = list(partner.items())
    while waiting:
        here, there = waiting.pop()
        for one, two in _matched(mine.get(here, ()), theirs.get(there, ())):
            partner[one["path"]] = two["path"]
            waiting.append((one["path"], two["path"]))
    return partner


def _inside(layers: LayerTable, matched: Collection[str]) -> dict[str | None, list[Row]]:
    """Return the layers right inside each layer that are not matched yet; the root is inside None."""
    inside: dict[str | None, list[Row]] = {}
    around = nearest_around(row["path"] for row in layers)
    for row in layers:
        if row["path"] not in matched:
            inside.setdefault(around[row["path"]], []).append(row)
    return inside


def _matched(mine: Sequence[Row], theirs: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    by_name = {(_name(row), _kind(row)): row for row in theirs}
    left = []
    met = set()
    for row in mine:
        same = by_name.get((_name(row), _kind(row)))
        if same is None:
            left.append(row)
        else:
            met.add(same["path"])
            yield row, same
    rest = [row for row in theirs if row["path"] not in met]
    kinds, others = list(map(_kind, left)), list(map(_kind, rest))
    start = _alike(kinds, others)
    yield from zip(left[:start], rest[:start], strict=True)
    left, rest, kinds, others = left[start:], rest[start:], kinds[start:], others[start:]
    if len(left) * len(rest) > _MOST_PAIRS:
        yield from _by_kind(left, rest)
        return
    for first, second, size in SequenceMatcher(None, kinds, others, autojunk=False).get_matching_blocks():
        yield from zip(left[first : first + size], rest[second : second + size], strict=True)


def _alike(kinds: Sequence[str], others: Sequence[str]) -> int:
    """Return how many of two lists are alike from the beginning."""
    pairs = zip(kinds, others, strict=False)
    return next((place for place, (one, two) in enumerate(pairs) if one != two), min(len(kinds), len(others)))


def _by_kind(left: Sequence[Row], rest: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Match the first of a type with the first, and so on: to look for the best order takes too long of so many."""
    waiting: dict[str, deque[Row]] = {}
    for row in rest:
        waiting.setdefault(_kind(row), deque()).append(row)
    for row in left:
        if waiting.get(_kind(row)):
            yield row, waiting[_kind(row)].popleft()


def _name(row: Row) -> str:
    return str(row["path"]).rpartition(".")[2]


def _kind(row: Row) -> str:
    return str(row["type"]).lower()
