"""The parts of a model that cost most: a few lines that say where the work, the time or the weights are.

`divide` opens the largest part again and again, as long as there is room for more lines. Each layer inside a part has a
line of its own, or one with the equal layers that follow it. Where these are too many, blocks of a series are joined,
and the smallest parts are gathered as the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, TypeAlias

from ..trace.columns import WORK
from ..trace.layer_paths import parent_path
from ..trace.layer_view import group_children, number_kinds
from .block_names import append_name, find_block, is_numbered, label_blocks, label_layers, name_inside, split_number

__all__ = ["Part", "choose_column", "divide"]

Row: TypeAlias = Mapping[str, Any]

#: The columns that parts are found by, the first in which the model has anything.
_BY = ("forward_seconds", *WORK, "params")
#: The share of the column, or of the parameters, that a part must have to stand in a line by itself.
_LEAST_SHARE = 0.01
#: A layer with more layers right inside is flat: layers whose names tell the same block stand in one line.
_MOST_FLAT = 30
#: A part with less of the whole is not opened.
_LEAST_OPENED = 0.3


@dataclass(eq=False)
class Part:
    """Layers that stand together in one line.

    Attributes:
        label: The path of the layer from the part around it; ``encoder.layer.0-11`` for equal layers, ``block_1`` for
            the layers of a block.
        rows: The rows of the layers.
        kind: The kind of the part. "layers": one layer, or equal layers. "block": different layers that share the name
            of a block, or several blocks that follow each other. "own": the work of the layers themselves, without the
            layers inside. "others": all layers without a line.
        inside: The parts inside the part; empty if it stays closed.
    """

    label: str
    rows: tuple[Row, ...]
    kind: Literal["layers", "block", "own", "others"] = "layers"
    inside: list[Part] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The path of the first layer."""
        return str(self.rows[0]["path"])

    def sum(self, column: str) -> float | None:
        """Return the sum of a column; None if no layer has a value."""
        values = self.list_values(column)
        return sum(values) if values else None

    def list_values(self, column: str) -> list[float]:
        """Return the values of a column, without the layers that have none."""
        name = f"own_{column}" if self.kind == "own" else column
        return [row[name] for row in self.rows if row.get(name) is not None]

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Part]]:
        """Yield the parts inside, in the order of the model, each with its depth."""
        for part in self.inside:
            yield depth, part
            yield from part.walk(depth + 1)

    def find_block(self) -> str | None:
        """Return the path of the block whose layers these are: ``block_1``; None if their names tell no block."""
        block = find_block(self.path)
        return block if self.kind == "block" or (self.kind == "layers" and block != self.path) else None

    def find_stage(self) -> tuple[str, ...] | None:
        """Return a key that the blocks of one stage share: their series and the shapes of their outputs.

        The key of layers in a list has their type too: a pooling layer between two blocks is not part of their stage.
        None for a part of no series (``block_`` or ``features.``), or without shapes.
        """
        shapes = self.rows[-1].get("output_shapes")
        numbered = split_number(self.find_block() or self.path)
        if self.kind not in ("layers", "block") or not shapes or not numbered or not numbered.series:
            return None
        return numbered.series, str(shapes), str(self.rows[0]["type"]) if self.kind == "layers" else ""


def choose_column(rows: Sequence[Row]) -> str:
    """Return the column by which the parts of a model are found: its time if that is known, else its work.

    A model without either is divided by its parameters; the column of an empty one is "".
    """
    root = rows[0] if rows else {}
    return next((name for name in _BY if root.get(name)), "")


def divide(rows: Sequence[Row], by: str, most: int) -> Part:
    """Return a model as the part that holds all other parts, at most so many.

    The part with most of the column is opened first, as long as there is room. A layer that holds only one other layer
    is passed through. Equal layers that follow each other are one part. Small layers are gathered; in a layer that
    holds very many layers, the layers of a block are gathered too, by their names.

    Args:
        rows: The rows of `Report.layerwise`, the model itself first.
        by: The column whose sums count, such as "macs".
        most: The number of parts.
    """
    opener = _Opener(rows, by)
    model = opener.pass_through(Part("", (rows[0],)))
    room = most
    waiting = opener.select_to_open([model])
    while waiting:
        largest = max(waiting, key=opener.share)
        largest.inside = opener.open(largest, room)
        room -= len(largest.inside)
        position = waiting.index(largest)
        waiting[position : position + 1] = opener.select_to_open(largest.inside)  # in the order of the model
    return model


class _Opener:
    """Opens parts of one model."""

    def __init__(self, rows: Sequence[Row], by: str) -> None:
        self._by = by
        self._root = rows[0]
        self._rows = {row["path"]: row for row in rows}
        self._children = group_children(rows)
        self._kinds = number_kinds(rows)

    def share(self, part: Part) -> float:
        """Return the share of a part."""
        return (part.sum(self._by) or 0) / (self._root[self._by] or 1)

    def select_to_open(self, parts: Sequence[Part]) -> list[Part]:
        """Return the layers with a large share among some parts."""
        return [part for part in parts if part.kind == "layers" and self.share(part) >= _LEAST_OPENED]

    def pass_through(self, part: Part) -> Part:
        """Return the part inside a part, and the part inside that, as long as there is only one."""
        inside = self._list_inside(part)
        while len(inside) == 1:
            part = Part(append_name(part.label, inside[0].label), inside[0].rows)
            inside = self._list_inside(part)
        return part

    def open(self, part: Part, room: int) -> list[Part]:
        """Return the content of a part, in at most so many parts; an empty list if it stays closed."""
        inside = self._list_inside(part)
        if self._count_lines(inside) > room:
            inside = self._join_series(inside, part)
        inside = [self.pass_through(inner) for inner in inside]
        left = self._choose_left(inside, room)
        shown, others = [inner for inner in inside if inner not in left], Part("", _join_rows(left), "others")
        lines = [*shown, others] if len(left) > 1 else inside
        return lines if 1 < len(lines) <= room and self._tells_more(shown, others, part) else []

    # The parts of a line ----------------------------------------------------------------------------------------------

    def _is_large(self, part: Part) -> bool:
        """Return whether a part has much of the whole, or of the parameters, if their number is known."""
        whole = self._root.get("params")
        share_of_params = (part.sum("params") or 0) / whole if whole else 0
        return max(self.share(part), share_of_params) >= _LEAST_SHARE

    def _count_lines(self, inside: Sequence[Part]) -> int:
        """Return how many lines parts take: one for each large part, and one for all small ones."""
        large = sum(map(self._is_large, inside))
        return large + (large < len(inside))

    def _choose_left(self, inside: Sequence[Part], room: int) -> list[Part]:
        """Return the parts for the line of the others: the small ones; if the large ones alone are too many, more.

        These are the smallest parts; the layer's own work is not among them.
        """
        if self._count_lines(inside) <= room:
            return [part for part in inside if not self._is_large(part)]
        ranked = sorted((part for part in inside if part.kind != "own"), key=self.share)
        return ranked[: len(inside) - room + 1]

    def _tells_more(self, shown: Sequence[Part], others: Part, around: Part) -> bool:
        """Return whether the lines say more than the part around them, which they always do of the model itself.

        One line that has nearly all says no more, nor do lines of which each has less than the others together.
        """
        if around.rows[0] is self._root:
            return True
        if len(shown) == 1 and not self._list_inside(shown[0]):
            return False
        return not self._is_large(others) or all(self.share(others) < self.share(part) for part in shown)

    # The content of a part --------------------------------------------------------------------------------------------

    def _list_inside(self, part: Part) -> list[Part]:
        """Return the layers right inside a part, equal layers together, and the own work of the part's layers."""
        if part.kind != "layers":
            return []
        inside = []
        for run in self._group_children(self._children.get(part.path, ())):
            names = [name_inside(child["path"], part.path) for child in run]
            rows = tuple(self._rows[append_name(row["path"], name)] for row in part.rows for name in names)
            are_equal = len(run) == 1 or is_numbered(run[0]["path"])
            inside.append(Part(label_layers(names), rows, "layers" if are_equal else "block"))
        itself = Part("", part.rows, "own")
        if inside and self.share(itself) >= _LEAST_SHARE:
            inside.append(itself)
        return inside

    def _group_children(self, rows: Sequence[Row]) -> list[list[Row]]:
        """Return layers in runs that share a line: equal layers of a list, or the layers of a block in a flat model."""
        # Where all names tell one block, it divides nothing.
        is_flat = len(rows) > _MOST_FLAT and len({find_block(row["path"]) for row in rows}) > 1

        def find_key(row: Row) -> Hashable:
            path = row["path"]
            if is_numbered(path):
                return parent_path(path), self._kinds[path]
            return find_block(path) if is_flat else path

        return [list(run) for _, run in groupby(rows, key=find_key)]

    def _join_series(self, inside: Sequence[Part], around: Part) -> list[Part]:
        """Return parts with the blocks of a series joined: blocks of one name, then of one stage.

        Small parts between two blocks are joined with them. If all parts would become one, none are joined.
        """
        parts = self._join_alike(inside, around, Part.find_block)
        parts = self._join_alike(parts, around, Part.find_stage)
        return parts if len(parts) > 1 else list(inside)

    def _join_alike(self, parts: Sequence[Part], around: Part, find_key: Callable[[Part], Any]) -> list[Part]:
        """Return parts right inside another, with neighbors of one key joined, and with them small parts between them.

        ``find_key`` returns the key of a part; None for one that is not joined.
        """
        runs: list[list[Part]] = []
        last_large = 0  # the run that goes on with the next part of its key; small parts may stand behind it
        for part in parts:
            key = find_key(part)
            if runs and key is not None and key == find_key(runs[last_large][0]):
                runs[last_large:] = [[*(earlier for run in runs[last_large:] for earlier in run), part]]
                continue
            if self._is_large(part):
                last_large = len(runs)
            runs.append([part])
        return [run[0] if len(run) == 1 else _join_blocks(run, around.path) for run in runs]


def _join_blocks(parts: Sequence[Part], outer: str) -> Part:
    """Return blocks right inside the layer ``outer`` as one part: ``features.4-6``, ``block_3-5``."""
    rows = _join_rows(parts)
    first, last = (name_inside(find_block(row["path"]), outer) for row in (rows[0], rows[-1]))
    return Part(label_blocks(first, last), rows, "block")


def _join_rows(parts: Sequence[Part]) -> tuple[Row, ...]:
    return tuple(row for part in parts for row in part.rows)
