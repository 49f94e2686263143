"""The parts of a model that cost most: a few lines that say where the work, the time or the weights are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from .bounds import WORK
from .layer_paths import count_depth, parent_path
from .layer_view import group_children

__all__ = ["PEAK", "Part", "choose_column", "divide", "number_kinds"]

#: The columns that parts are found by, the first in which the model has anything.
_BY = ("forward_seconds", *WORK, "params")
#: The column of a table that says where memory is, at the moment when most is taken; its other bytes say for what.
PEAK = "peak_bytes"
#: What equal layers have the same of.
_COUNTS = ("type", "params", *WORK, "calls", PEAK)
#: What a part must have of the whole, of the column or of the parameters, to stand by itself.
_LEAST_SHARE = 0.01
#: Of more layers right inside one, those whose names share a numbered stem are one part: such a model has its blocks in
#: names alone, as those of Keras do.
_MOST_FLAT = 30
#: The numbered stem of a name, which words may follow: ``block_1`` of ``block_1_expand``, ``b2a`` of ``b2a_bn``.
_STEM = re.compile(r"(.*?\d[a-z]?)(?:_(?=[A-Za-z])|$)")
#: A stem as what a series of blocks shares, and the number of one of them: ``block_`` and ``3``, ``block`` and ``2a``.
_SERIES = re.compile(r"(.*?)(\d+[a-z]?)")
#: More parts than this are not joined, but gathered: the smallest pair would be looked for too often.
_MOST_JOINED = 100
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
        kind: What the part is: "layers", "block" (of layers that differ, and that are one by their names, or of blocks
            that follow each other), "size" (of layers whose outputs are as high and wide), "own" (what the layers do
            themselves, beside the layers inside) or "others".
        inside: The parts that it is divided into, if it is.
    """

    label: str
    rows: tuple[_Row, ...]
    kind: str = "layers"
    inside: list[Part] = field(default_factory=list)

    def sum(self, column: str) -> float | None:
        """Return the sum of a column; None where no layer has a value."""
        values = self.list_values(column)
        return sum(values) if values else None

    def list_values(self, column: str) -> list[float]:
        """Return the values of a column, of those layers that have one."""
        name = f"own_{column}" if self.kind == "own" else column
        return [row[name] for row in self.rows if row.get(name) is not None]

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
        self._kinds = number_kinds(rows)

    def share(self, part: Part) -> float:
        """Return what a part has of the whole."""
        return (part.sum(self._by) or 0) / (self._root[self._by] or 1)

    def pass_through(self, part: Part) -> Part:
        """Return what a part holds, as long as that is one part alone."""
        inside = self._list_inside(part)
        while len(inside) == 1:
            part = Part(_append(part.label, inside[0].label), inside[0].rows)
            inside = self._list_inside(part)
        return part

    def open(self, part: Part, room: int) -> list[Part]:
        """Return what is inside a part, in at most so many parts; nothing where it stays closed."""
        inside = self._list_inside(part)
        if self._count_lines(inside) > room:
            inside = self._join_blocks(inside, part, room)
        inside = [self.pass_through(one) for one in inside]
        small = self._choose_small(inside, room)
        if sum(map(self.share, small)) > max((self.share(one) for one in inside if one not in small), default=0):
            inside = self._divide_by_size(part, inside)  # names say little, as those of cells with parallel branches
            small = self._choose_small(inside, room)
        large = [one for one in inside if one not in small]
        opened = [*large, _gather(small)] if len(small) > 1 else inside
        return opened if 1 < len(opened) <= room and self._tells(part, large, small) else []

    def _count_lines(self, inside: Sequence[Part]) -> int:
        """Return how many lines parts take: one for each that stands by itself, and one for all others."""
        large = sum(map(self._is_large, inside))
        return large + (large < len(inside))

    def _join_blocks(self, inside: Sequence[Part], around: Part, room: int) -> list[Part]:
        """Return parts with blocks of a series that follow each other as one, what is small between them included.

        First those of one name are one, and those that give equal shapes, which are the stages of a network. Then the
        two neighbors with the least of the whole are, until there is room for all, or gathering the smallest parts
        takes less of the whole out of sight.
        """
        parts, outer = list(inside), str(around.rows[0]["path"])
        for find_key in (_find_name, _find_stage):
            parts = self._join_alike(parts, outer, find_key)
        while room < self._count_lines(parts) <= _MOST_JOINED:
            large = [index for index, part in enumerate(parts) if self._is_large(part)]
            series = {index: _find_series(parts[index]) for index in large}
            pairs = [pair for pair in pairwise(large) if series[pair[0]] and series[pair[0]] == series[pair[1]]]
            sums = [self.share(parts[first]) + self.share(parts[last]) for first, last in pairs]
            small = self._choose_small(parts, room)
            is_told = self._tells(around, [one for one in parts if one not in small], small)
            if not pairs or (is_told and sum(map(self.share, small)) < min(sums)):
                break
            first, last = pairs[sums.index(min(sums))]
            parts[first : last + 1] = [_join(parts[first : last + 1], outer)]
        return parts if len(parts) > 1 else list(inside)

    def _join_alike(self, parts: Sequence[Part], outer: str, find_key: Callable[[Part], Any]) -> list[Part]:
        """Return parts with those of one key that follow each other as one, what is small between them included."""
        joined, run, between = list[Part](), list[Part](), list[Part]()
        for part in parts:
            key = find_key(part)
            if run and key is not None and key == find_key(run[0]):
                run += [*between, part]
                between = []
            elif run and not self._is_large(part):
                between.append(part)
            else:
                joined += [*([_join(run, outer)] if run else []), *between]
                run, between = [part], []
        return [*joined, _join(run, outer), *between]

    def _divide_by_size(self, part: Part, inside: list[Part]) -> list[Part]:
        """Return the layers of a part by the height and width of their outputs, or what is inside where that is one."""
        rows = self._children.get(part.rows[0]["path"], ()) if len(part.rows) == 1 else ()
        sizes = _find_sizes(rows)
        by_size = {size: tuple(row for row in rows if sizes.get(row["path"]) == size) for size in sizes.values()}
        if len(by_size) < 2:
            return inside
        without_size = tuple(row for row in rows if row["path"] not in sizes)
        parts = [Part(f"at {height} x {width}", alike, "size") for (height, width), alike in by_size.items()]
        parts += [Part(row["path"], (row,)) for row in without_size]
        return [*parts, *(one for one in inside if one.kind == "own")]

    def _choose_small(self, inside: list[Part], room: int) -> list[Part]:
        """Return the parts that are gathered: those with little of the whole, and more of them where room lacks."""
        small = [one for one in inside if not self._is_large(one)]
        if self._count_lines(inside) <= room:
            return small
        ranked = sorted((one for one in inside if one.kind != "own"), key=self.share)
        return ranked[: len(inside) - room + 1]

    def _tells(self, around: Part, large: list[Part], small: list[Part]) -> bool:
        """Return whether parts say more than the one around them: not where one has all, or the others have most.

        Those of the model itself always do.
        """
        if around.rows[0] is self._root:
            return True
        if len(large) == 1 and not self._list_inside(large[0]):
            return False
        others = _gather(small)
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
            names = [child["path"][len(first) :].lstrip(".") for child in run]
            paths = [_append(row["path"], name) for row in part.rows for name in names]
            kind = "block" if len(run) > 1 and not _is_numbered(run[0]["path"]) else "layers"
            inside.append(Part(_label_run(first, run), tuple(self._rows[path] for path in paths), kind))
        itself = Part("", part.rows, "own")
        if inside and self.share(itself) >= _LEAST_SHARE:
            inside.append(itself)
        return inside


def _find_sizes(rows: Sequence[_Row]) -> dict[str, tuple[int, int]]:
    """Return by path the height and the width of the first output of each layer that gives images; {} unless square.

    Whether channels stand first or last is read from square images, which most models take.
    """
    shapes = {row["path"]: row["output_shapes"][0] for row in rows if row.get("output_shapes")}
    images = {path: shape for path, shape in shapes.items() if len(shape) == 4}
    last, first = (sum(shape[axis] == shape[axis + 1] for shape in images.values()) for axis in (1, 2))
    if 2 * max(last, first) <= len(images):
        return {}
    axis = 1 if last >= first else 2
    return {path: (shape[axis], shape[axis + 1]) for path, shape in images.items()}


def _gather(parts: Sequence[Part]) -> Part:
    return Part("", tuple(row for part in parts for row in part.rows), "others")


def number_kinds(rows: Sequence[_Row]) -> dict[str, int]:
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


def _label_run(outer: str, run: Sequence[_Row]) -> str:
    """Return the label of layers right inside another one: ``layer.0``, ``layer.0-11`` of equal ones, or their stem."""
    names = [str(row["path"])[len(outer) :].lstrip(".") for row in run]
    if len(names) == 1:
        return names[0]
    return f"{names[0]}-{names[-1].rpartition('.')[2]}" if _is_numbered(names[0]) else _find_stem(names[0])


def _find_name(part: Part) -> str | None:
    """Return the numbered stem that the layers of a block share: ``block_1``; None of other parts."""
    path = str(part.rows[0]["path"])
    stem = _find_stem(path)
    return stem if part.kind == "block" or (part.kind == "layers" and stem != path) else None


def _find_series(part: Part) -> str:
    """Return what the names of a series of blocks begin with, ``block_`` or ``features.``; nothing of other parts."""
    match = _SERIES.fullmatch(_find_name(part) or str(part.rows[0]["path"]))
    return match[1] if match and part.kind in ("layers", "block") else ""


def _find_stage(part: Part) -> tuple[str, ...] | None:
    """Return what is the same for blocks of one stage: their series, and the shapes that they give; None of others.

    Layers of a numbered list have their type too: a pooling layer between two blocks is none of them.
    """
    series, shapes = _find_series(part), part.rows[-1].get("output_shapes")
    if not series or not shapes:
        return None
    return series, str(shapes), str(part.rows[0]["type"]) if part.kind == "layers" else ""


def _join(parts: Sequence[Part], outer: str) -> Part:
    """Return blocks that follow each other right inside a layer as one part: ``features.4-6``, ``block_3-5``."""
    if len(parts) == 1:
        return parts[0]
    rows = tuple(row for part in parts for row in part.rows)
    ends = ((parts[0], rows[0]), (parts[-1], rows[-1]))
    first, last = (_find_stem(row["path"]) if _find_name(part) else str(row["path"]) for part, row in ends)
    number = _SERIES.fullmatch(last)
    label = first[len(outer) :].lstrip(".")
    return Part(label if first == last else f"{label}-{number[2] if number else last}", rows, "block")


def _is_numbered(path: str) -> bool:
    return path.rpartition(".")[2].isdecimal()


def _find_stem(path: str) -> str:
    """Return a path with the name of its layer cut off behind the first number that words follow, or whole.

    >>> _find_stem("net.conv4_block2_1_bn"), _find_stem("block_1_expand"), _find_stem("conv2d_94"), _find_stem("add")
    ('net.conv4', 'block_1', 'conv2d_94', 'add')
    """
    outer, _, name = path.rpartition(".")
    match = _STEM.match(name)
    return _append(outer, match[1] if match else name)


def _append(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
