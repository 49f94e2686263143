"""The matching layers of two models: by path and type if both have them, else by type and order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from .families import ACTIVATION, GENERIC, find_family, is_activation
from .layer_paths import nearest_around
from .records import LayerTable

__all__ = ["match_layers"]

Row = Mapping[str, Any]
#: Returns the common kind of two matched layers: the type, or the family.
NameKind = Callable[[Row], str]

#: The most pairs of layers inside one layer (layers of one model times layers of the other) that are compared in order.
_MOST_PAIRS = 1_000_000


class _Pair(NamedTuple):
    """A layer of the reference, and the layer of the other model that it is matched with."""

    mine: Row
    theirs: Row


def match_layers(reference: LayerTable, other: LayerTable, *, is_foreign: bool = False) -> dict[str, str]:
    """Return for the path of each matched layer of the reference the path of its layer in the other model.

    Layers of the same path and type match, whatever the layers around them are. Other layers are matched only inside
    layers that match: by name and type, then by type in order, like the lines of two texts in a diff.

    Types agree if they differ only in case (``Conv2d``, ``Conv2D``). At the same path they also agree if they are of
    one family (``Linear``, ``Gemm``), or if both layers have layers inside and one has no class (the ``Module`` of an
    exporter). With ``is_foreign``, for models of different backends, types of one family agree everywhere, and so do
    any two layers at the same path that have layers inside.
    """
    matched = _match_paths(reference, other, is_foreign)
    name_kind = _name_family if is_foreign else _name_type
    mine, theirs = _list_unmatched(reference, matched), _list_unmatched(other, matched)
    waiting = list(matched.items())
    while waiting:
        path, other_path = waiting.pop()
        pairs = _match_inside(mine.get(path, ()), theirs.get(other_path, ()), name_kind)
        inside = {pair.mine["path"]: pair.theirs["path"] for pair in pairs}
        matched |= inside
        waiting += inside.items()
    return matched


def _match_paths(reference: LayerTable, other: LayerTable, is_foreign: bool) -> dict[str, str]:
    """Return the paths of layers that match at the same path; the models themselves always match."""
    theirs_by_path = {row["path"]: row for row in other}
    matched = {}
    for row in reference:
        path = row["path"]
        candidate = theirs_by_path.get(path)
        if candidate is not None and (not path or _is_alike(row, candidate, is_foreign)):
            matched[path] = path
    return matched


def _is_alike(one: Row, two: Row, is_foreign: bool) -> bool:
    """Return whether the types of layers at the same path agree, as `match_layers` has it."""
    if _name_type(one) == _name_type(two):
        return True
    family, other_family = find_family(one["type"]), find_family(two["type"])
    is_one_family = family.name == other_family.name
    both_hold_layers = not (one.get("is_leaf", True) or two.get("is_leaf", True))
    if is_foreign:
        return is_one_family or both_hold_layers or _name_family(one) == _name_family(two)
    dimensions = {family.dimensions, other_family.dimensions}  # "" of a type without them
    if is_one_family and ("" in dimensions or len(dimensions) == 1):
        return True
    return both_hold_layers and GENERIC in (family.name, other_family.name)


def _list_unmatched(layers: LayerTable, matched: Collection[str]) -> dict[str | None, list[Row]]:
    """Return the layers right inside each layer that are not matched yet; the root is inside None."""
    inside: dict[str | None, list[Row]] = {}
    around = nearest_around(row["path"] for row in layers)
    for row in layers:
        if row["path"] not in matched:
            inside.setdefault(around[row["path"]], []).append(row)
    return inside


def _match_inside(mine: Sequence[Row], theirs: Sequence[Row], name_kind: NameKind) -> Iterator[_Pair]:
    """Yield the pairs of matching layers directly inside two layers: by name and kind, then by kind alone."""
    by_name = {(_read_name(row), name_kind(row)): row for row in reversed(theirs)}  # of equal names the first
    left: list[Row] = []
    matched: set[str] = set()
    for row in mine:
        same = by_name.pop((_read_name(row), name_kind(row)), None)
        if same is None:
            left.append(row)
        else:
            matched.add(same["path"])
            yield _Pair(row, same)
    yield from _match_in_order(left, [row for row in theirs if row["path"] not in matched], name_kind)


def _match_in_order(mine: Sequence[Row], theirs: Sequence[Row], name_kind: NameKind) -> Iterator[_Pair]:
    """Yield layers of equal kinds in the same order, like the equal lines of two texts in a diff."""
    kinds, others = list(map(name_kind, mine)), list(map(name_kind, theirs))
    start = _count_equal(kinds, others)  # in similar models this is nearly all, and it is quick
    yield from map(_Pair, mine[:start], theirs[:start])
    mine, theirs, kinds, others = mine[start:], theirs[start:], kinds[start:], others[start:]
    if len(mine) * len(theirs) > _MOST_PAIRS:
        return  # they count as removed and added
    for first, second, size in SequenceMatcher(None, kinds, others, autojunk=False).get_matching_blocks():
        yield from map(_Pair, mine[first : first + size], theirs[second : second + size])


def _count_equal(kinds: Sequence[str], others: Sequence[str]) -> int:
    """Return how many of two lists are equal from the beginning."""
    pairs = zip(kinds, others, strict=False)
    return next((index for index, (one, two) in enumerate(pairs) if one != two), min(len(kinds), len(others)))


def _read_name(row: Row) -> str:
    """Return the last part of a layer's path."""
    return str(row["path"]).rpartition(".")[2]


def _name_type(row: Row) -> str:
    return str(row["type"]).lower()


def _name_family(row: Row) -> str:
    """Return the common kind of layers of two frameworks; a layer with its function as an option fits any function."""
    return ACTIVATION if is_activation(row["type"]) else find_family(row["type"]).name
