"""The layers of two models side by side: by path and type where both have them, else by type and order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from .bounds import WORK
from .families import ACTIVATION, GENERIC, find_family, is_activation
from .layer_paths import nearest_around
from .records import LayerTable
from .table import Table

if TYPE_CHECKING:
    from ..results.report import Report

__all__ = ["VALUES", "align", "is_foreign", "partners", "require_layers"]

#: The columns that are set side by side unless others are asked for.
VALUES = ("params", *WORK, "own_macs", "own_flops")

Row = Mapping[str, Any]
Kind = Callable[[Row], str]

#: Of more layers inside one layer, those of the one model times those of the other, the order is not looked into.
_MOST_PAIRS = 1_000_000


def align(reference: Report, other: Report, columns: Sequence[str] = VALUES) -> Table:
    """Return one row for each layer of either model, in the order of the reference.

    Layers of the same path and type are one row, whatever the layers around them are. The others are matched, inside
    layers that are matched themselves, by name and type, then by type in order, as a line-by-line comparison of two
    texts does. What is left was removed or added.

    Types agree if they differ in case alone (``Conv2d``, ``Conv2D``). At the same path they also agree if they are of
    one family (``Linear``, ``Gemm``), or if both layers hold others and one of them has no class (``Module``, of an
    exporter). Between backends families agree everywhere, and so do two layers at the same path that hold others.

    The columns: ``change`` ("same", "changed", "removed", "added"), ``path`` (the other's where the reference has no
    such layer), ``other_path``, ``type``, ``other_type``, ``depth``, ``is_leaf``, and for each of ``columns``
    (``params``, ``macs``, ...) what the reference has, what the other has (``other_macs``), and the difference
    (``macs_difference``), None where one lacks the layer. A layer has changed if one of these columns has.

    Raises `ValueError` where one of the reports holds no layers.
    """
    mine, theirs = require_layers(reference), require_layers(other)
    return Table(_list_rows(mine, theirs, partners(mine, theirs, is_foreign(reference, other)), columns))


def is_foreign(reference: Report, other: Report) -> bool:
    """Return whether two reports are of different backends, which have names of their own for the same layers."""
    return reference.backend != other.backend


def require_layers(report: Report) -> LayerTable:
    """Return the layers of a report; raises `ValueError` where it holds none."""
    if report.layers is None:
        raise ValueError(f"the report of {report.name} holds no layers, so that there is nothing to align")
    return report.layers


def _list_rows(
    reference: LayerTable, other: LayerTable, partner: Mapping[str, str], columns: Sequence[str]
) -> Iterator[Row]:
    """Yield a row for each layer; one that the other model alone has comes before the next layer that both have."""
    theirs = {row["path"]: row for row in other}
    taken = set(partner.values())
    order = [row["path"] for row in other]
    positions = {path: index for index, path in enumerate(order)}
    index = 0
    for row in reference:
        match = partner.get(row["path"])
        if match is not None:
            end = positions[match]
            added = [theirs[path] for path in order[index:end] if path not in taken]
            yield from (_make_row(layer, None, layer, columns) for layer in added)
            index = max(index, end + 1)
        yield _make_row(row, row, None if match is None else theirs[match], columns)
    rest = [theirs[path] for path in order[index:] if path not in taken]
    yield from (_make_row(layer, None, layer, columns) for layer in rest)


def _make_row(shown: Row, mine: Row | None, theirs: Row | None, columns: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "change": "added" if mine is None else "removed" if theirs is None else "same",
        "path": shown["path"],
        "other_path": theirs["path"] if theirs else None,
        "type": shown["type"],
        "other_type": theirs["type"] if theirs else None,
        "depth": shown["depth"],
        "is_leaf": shown["is_leaf"],
    }
    for column in columns:
        first, second = (None if side is None else side.get(column) for side in (mine, theirs))
        difference = None if first is None or second is None else second - first
        row |= {column: first, f"other_{column}": second, f"{column}_difference": difference}
        if difference and row["change"] == "same":
            row["change"] = "changed"
    return row


def partners(reference: LayerTable, other: LayerTable, foreign: bool = False) -> dict[str, str]:
    """Return the path of the layer in the other model by that in the reference, for those that are matched.

    ``foreign`` says that the two have names of different frameworks for the same layers.
    """
    kind = _family if foreign else _kind
    theirs_by_path = {row["path"]: row for row in other}
    partner = {}
    for row in reference:
        candidate = theirs_by_path.get(row["path"])
        if candidate is not None and _is_alike(row, candidate, foreign):
            partner[row["path"]] = row["path"]
    if "" in theirs_by_path and any(row["path"] == "" for row in reference):
        partner[""] = ""  # the models themselves, of whatever types
    mine, theirs = _inside(reference, partner), _inside(other, partner)
    waiting = list(partner.items())
    while waiting:
        here, there = waiting.pop()
        for one, two in _match(mine.get(here, ()), theirs.get(there, ()), kind):
            partner[one["path"]] = two["path"]
            waiting.append((one["path"], two["path"]))
    return partner


def _is_alike(one: Row, two: Row, foreign: bool) -> bool:
    """Return whether layers at the same path are the same, by their types and by whether they hold layers."""
    if _kind(one) == _kind(two):
        return True
    (family, dimensions), (other, others_dimensions) = find_family(one["type"]), find_family(two["type"])
    if family == other and (foreign or "" in (dimensions, others_dimensions) or dimensions == others_dimensions):
        return True
    if not (one.get("is_leaf", True) or two.get("is_leaf", True)):
        return foreign or GENERIC in (family, other)
    return foreign and _family(one) == _family(two)


def _inside(layers: LayerTable, matched: Collection[str]) -> dict[str | None, list[Row]]:
    """Return the layers right inside each layer that are not matched yet; the root is inside None."""
    inside: dict[str | None, list[Row]] = {}
    around = nearest_around(row["path"] for row in layers)
    for row in layers:
        if row["path"] not in matched:
            inside.setdefault(around[row["path"]], []).append(row)
    return inside


def _match(mine: Sequence[Row], theirs: Sequence[Row], kind: Kind) -> Iterator[tuple[Row, Row]]:
    """Yield the layers that belong together, of those right inside two layers: by name and kind, then by kind alone."""
    by_name = {(_name(row), kind(row)): row for row in theirs}
    left: list[Row] = []
    matched: set[str] = set()
    for row in mine:
        same = by_name.get((_name(row), kind(row)))
        if same is None:
            left.append(row)
        else:
            matched.add(same["path"])
            yield row, same
    yield from _match_in_order(left, [row for row in theirs if row["path"] not in matched], kind)


def _match_in_order(mine: Sequence[Row], theirs: Sequence[Row], kind: Kind) -> Iterator[tuple[Row, Row]]:
    """Yield layers of one kind that stand in the same order, as a line-by-line comparison of two texts finds them."""
    kinds, others = list(map(kind, mine)), list(map(kind, theirs))
    start = _count_equal(kinds, others)
    yield from zip(mine[:start], theirs[:start], strict=True)
    mine, theirs, kinds, others = mine[start:], theirs[start:], kinds[start:], others[start:]
    if len(mine) * len(theirs) > _MOST_PAIRS:
        yield from _match_any(mine, theirs, kind)
        return
    for first, second, size in SequenceMatcher(None, kinds, others, autojunk=False).get_matching_blocks():
        yield from zip(mine[first : first + size], theirs[second : second + size], strict=True)


def _count_equal(kinds: Sequence[str], others: Sequence[str]) -> int:
    """Return how many of two lists are equal from the beginning."""
    pairs = zip(kinds, others, strict=False)
    return next((index for index, (one, two) in enumerate(pairs) if one != two), min(len(kinds), len(others)))


def _match_any(mine: Sequence[Row], theirs: Sequence[Row], kind: Kind) -> Iterator[tuple[Row, Row]]:
    """Match the first of a kind with the first, and so on: to look for the best order takes too long of so many."""
    waiting: dict[str, deque[Row]] = {}
    for row in theirs:
        waiting.setdefault(kind(row), deque()).append(row)
    for row in mine:
        if waiting.get(kind(row)):
            yield row, waiting[kind(row)].popleft()


def _name(row: Row) -> str:
    return str(row["path"]).rpartition(".")[2]


def _kind(row: Row) -> str:
    return str(row["type"]).lower()


def _family(row: Row) -> str:
    """Return what layers of two frameworks have in common; one with its function as an option fits any function."""
    return ACTIVATION if is_activation(row["type"]) else find_family(row["type"])[0]
