"""The parts of a model that cost most: a few lines that say where the work, the time or the weights are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from .layer_paths import count_depth, parent_path
from .layer_view import group_children

__all__ = ["Part", "choose_column", "divide"]

#: The columns that parts are found by, the first in which the model has anything.
_BY = ("forward_seconds", "macs", "flops", "params")
#: What a part must have of the whole, of the column or of the parameters, to stand by itself.
_LEAST_SHARE = 0.01
#: Of more layers right inside one, those whose names share a numbered stem are one part: such a model has its blocks in
#: names alone, as those of Keras do.
_MOST_FLAT = 30
#: The numbered stem of a name, which words may follow: ``block_1`` of ``block_1_expand``, ``b2a`` of ``b2a_bn``.
_STEM = re.compile(r"(.*?\d[a-z]?)(?:_(?=[A-Za-z])|$)")
#: A part with less of the whole is not opened.
_LEAST_OPENED = 0.3

_Row = Mapping[str, Any]


@dataclass(eq=False)
class Part:
    """Layers that stand together in one line: one layer, equal layers, a block, or the others of a layer.

    Attributes:
        label: The path of the layer from the part around it, ``encoder.layer.0-11`` for equal ones, ``block_1`` for
            those of a block.
        rows: The rows of the layers.
        kind: What the part is: "layers", "block" (of layers that differ, and that are one by their names), "own" (what
            the layers do themselves, beside the layers inside) or "others".
        inside: The parts that it is divided into, if it is.
    """

    label: str
    rows: tuple[_Row, ...]
    kind: str = "layers"
    inside: list[Part] = field(default_factory=list)

    def sum(self, column: str) -> float | None:
        """Return the sum of a column; None where no layer has a value."""
        name = f"own_{column}" if self.kind == "own" else column
        values = [row[name] for row in self.rows if row.get(name) is not None]
        return sum(values) if values else None

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Part]]:
        """Yield the parts inside, in the order of the model, each with its depth."""
        for part in self.inside:
            yield depth, part
            yield from part.walk(depth + 1)


def choose_column(rows: Sequence[_Row]) -> str:
    """Return the column by which the parts of a model are found: its time where that is known, else its work."""
    root = rows[0] if rows else {}
    return next((name for name in _BY if root.get(name)), "")


def divide(rows: Sequence[_Row], by: str, most: int) -> Part:
    """Return a model as the part that holds all others, at most so many.

    The part with most of the column is opened first, as long as there is room. A layer that holds one other layer alone
    is passed through. Equal layers that follow each other are one part. Small layers are gathered, and of a layer that
    holds very many those whose names share a numbered stem.

    Args:
        rows: The rows of `Report.layerwise`, the model itself first.
        by: The column whose sums count, such as "macs".
        most: The number of parts.
    """
    opener = _Opener(rows, by)
    model = opener.pass_through(Part("", (rows[0],)))
    room, closed = most, list[Part]()
    while True:
        whole = [model, *(part for _, part in model.walk())]
        candidates = [part for part in whole if part.kind == "layers" and not part.inside and part not in closed]
        candidates = [part for part in candidates if opener.share(part) >= _LEAST_OPENED]
        if not candidates:
            return model
        largest = max(candidates, key=opener.share)
        largest.inside = opener.open(largest, room)
        room -= len(largest.inside)
        closed.append(largest)


class _Opener:
    """Opens parts of one model."""

    def __init__(self, rows: Sequence[_Row], by: str) -> None:
        self._by = by
        self._root = rows[0]
        self._rows = {row["path"]: row for row in rows}
        self._children = group_children(rows)
        self._kinds = _number_kinds(rows, self._children)

    def share(self, part: Part) -> float:
        """Return what a part has of the whole."""
        return (part.sum(self._by) or 0) / (self._root[self._by] or 1)

    def pass_through(self, part: Part) -> Part:
        """Return what a part holds, as long as that is one part alone."""
        inside = self._list_inside(part)
        while len(inside) == 1:
            part = Part(_join(part.label, inside[0].label), inside[0].rows)
            inside = self._list_inside(part)
        return part

    def open(self, part: Part, room: int) -> list[Part]:
        """Return what is inside a part, in at most so many parts; nothing where it stays closed."""
        inside = [self.pass_through(one) for one in self._list_inside(part)]
        small = set(self._choose_small(inside, room))
        others = Part("", tuple(row for one in inside if one in small for row in one.rows), "others")
        large = [one for one in inside if one not in small]
        opened = [*large, others] if len(small) > 1 else inside
        is_model = part.rows[0] is self._root
        return opened if 1 < len(opened) <= room and (is_model or self._tells(large, others)) else []

    def _choose_small(self, inside: list[Part], room: int) -> list[Part]:
        """Return the parts that are gathered: those with little of the whole, and more of them where room lacks."""
        small = [one for one in inside if not self._is_large(one)]
        if len(inside) - len(small) + bool(small) <= room:
            return small
        ranked = sorted((one for one in inside if one.kind != "own"), key=self.share)
        return ranked[: len(inside) - room + 1]

    def _tells(self, large: list[Part], others: Part) -> bool:
        """Return whether parts say more than the one around them: not where one has all, or the others have most."""
        if len(large) == 1 and not self._list_inside(large[0]):
            return False
        return all(self.share(others) < self.share(one) or not self._is_large(others) for one in large)

    def _is_large(self, part: Part) -> bool:
        params = (part.sum("params") or 0) / (self._root.get("params") or 1)
        return max(self.share(part), params) >= _LEAST_SHARE

    def _find_runs(self, rows: Sequence[_Row]) -> list[list[_Row]]:
        """Return layers that follow each other, those together that share a line; stems that all share tell nothing."""

        def split(is_flat: bool) -> list[list[_Row]]:
            return [list(run) for _, run in groupby(rows, key=lambda row: self._find_group(row, is_flat))]

        runs = split(is_flat=len(rows) > _MOST_FLAT)
        return runs if len(runs) > 1 else split(is_flat=False)

    def _find_group(self, row: _Row, is_flat: bool) -> tuple[Any, ...]:
        """Return what is the same for layers that share a line: a numbered one has its list and its kind.

        Of very many layers, which are flat, one with a numbered stem has that.
        """
        path = row["path"]
        if _is_numbered(path):
            return parent_path(path), self._kinds[path]
        return (_find_stem(path) if is_flat else path,)

    def _list_inside(self, part: Part) -> list[Part]:
        """Return the layers right inside a part, equal ones together, and what its layers do themselves."""
        first = part.rows[0]["path"]
        if part.kind != "layers":
            return []
        inside = []
        for run in self._find_runs(self._children.get(first, ())):
            paths = [_join(row["path"], child["path"][len(first) :].lstrip(".")) for row in part.rows for child in run]
            kind = "block" if len(run) > 1 and not _is_numbered(run[0]["path"]) else "layers"
            inside.append(Part(_label_run(first, run), tuple(self._rows[path] for path in paths), kind))
        itself = Part("", part.rows, "own")
        if inside and self.share(itself) >= _LEAST_SHARE:
            inside.append(itself)
        return inside


def _number_kinds(rows: Sequence[_Row], children: Mapping[str, Sequence[_Row]]) -> dict[str, int]:
    """Return by path a number that equal layers share: of one type, with equal counts, and equal layers inside."""
    numbers: dict[tuple[Any, ...], int] = {}
    kinds: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: -count_depth(row["path"])):  # those inside before those around them
        path = row["path"]
        inside = tuple((child["path"][len(path) :], kinds[child["path"]]) for child in children.get(path, ()))
        counts = tuple(row.get(column) for column in ("type", "params", "macs", "flops", "calls"))
        kinds[path] = numbers.setdefault((*counts, inside), len(numbers))
    return kinds


def _label_run(outer: str, run: Sequence[_Row]) -> str:
    """Return the label of layers right inside another one: ``layer.0``, ``layer.0-11`` of equal ones, or their stem."""
    names = [str(row["path"])[len(outer) :].lstrip(".") for row in run]
    if len(names) == 1:
        return names[0]
    return f"{names[0]}-{names[-1].rpartition('.')[2]}" if _is_numbered(names[0]) else _find_stem(names[0])


def _is_numbered(path: str) -> bool:
    return path.rpartition(".")[2].isdecimal()


def _find_stem(path: str) -> str:
    """Return a path with the name of its layer cut off behind the first number that words follow, or whole.

    >>> _find_stem("net.conv4_block2_1_bn"), _find_stem("block_1_expand"), _find_stem("conv2d_94"), _find_stem("add")
    ('net.conv4', 'block_1', 'conv2d_94', 'add')
    """
    outer, _, name = path.rpartition(".")
    match = _STEM.match(name)
    return _join(outer, match[1] if match else name)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
