"""What is inside a part of a model: the layers right inside it, equal layers together, and blocks of a series together.

The series are joined only where the parts would be too many otherwise; `profilerkit.render.cost_parts` decides that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, TypeAlias

from ..trace.layer_paths import parent_path
from ..trace.layer_view import group_children, number_kinds
from .block_names import append_name, find_block, is_numbered, label_blocks, label_layers, name_inside, split_number

__all__ = ["Contents", "Part", "Row", "join_rows", "join_series"]

Row: TypeAlias = Mapping[str, Any]

#: A layer with more layers right inside is flat: layers whose names tell the same block stand in one line.
_MOST_FLAT = 30


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


def join_rows(parts: Sequence[Part]) -> tuple[Row, ...]:
    """Return the rows of all layers of some parts."""
    return tuple(row for part in parts for row in part.rows)


class Contents:
    """The layers of a model, from which the content of each part is read."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = {row["path"]: row for row in rows}
        self._children = group_children(rows)
        self._kinds = number_kinds(rows)

    def list_inside(self, part: Part) -> list[Part]:
        """Return the layers right inside a part, equal layers together, and the own work of the part's layers.

        The list is empty for a part without layers inside. All layers of a part are equal, and so is what they hold.
        """
        if part.kind != "layers":
            return []
        inside = []
        for run in self._group_children(self._children.get(part.path, ())):
            names = [name_inside(child["path"], part.path) for child in run]
            rows = tuple(self._rows[append_name(row["path"], name)] for row in part.rows for name in names)
            are_equal = len(run) == 1 or is_numbered(run[0]["path"])
            inside.append(Part(label_layers(names), rows, "layers" if are_equal else "block"))
        return [*inside, Part("", part.rows, "own")] if inside else []

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


# Series ---------------------------------------------------------------------------------------------------------------


def join_series(parts: Sequence[Part], outer: str, is_large: Callable[[Part], bool]) -> list[Part]:
    """Return parts right inside the layer ``outer`` with the blocks of a series joined.

    First the parts of one block are joined, then the blocks of one stage, each with the small parts between them. If
    all parts would become one, none are joined.
    """
    blocks = _join_neighbors(parts, outer, _find_block, is_large)
    stages = _join_neighbors(blocks, outer, _find_stage, is_large)
    return stages if len(stages) > 1 else list(parts)


def _join_neighbors(
    parts: Sequence[Part], outer: str, find_key: Callable[[Part], Hashable], is_large: Callable[[Part], bool]
) -> list[Part]:
    """Return parts with neighbors of one key joined; a part whose key is None is not joined."""
    runs: list[list[Part]] = []
    small: list[Part] = []  # parts behind the last run, which belong to it if it goes on behind them
    for part in parts:
        key = find_key(part)
        if runs and key is not None and key == find_key(runs[-1][0]):
            runs[-1] += [*small, part]
            small = []
        elif runs and not is_large(part):
            small.append(part)
        else:
            runs += [*([one] for one in small), [part]]
            small = []
    runs += [[one] for one in small]
    return [run[0] if len(run) == 1 else _join_run(run, outer) for run in runs]


def _join_run(parts: Sequence[Part], outer: str) -> Part:
    """Return blocks right inside the layer ``outer`` as one part: ``features.4-6``, ``block_3-5``."""
    rows = join_rows(parts)
    first, last = (name_inside(find_block(row["path"]), outer) for row in (rows[0], rows[-1]))
    return Part(label_blocks(first, last), rows, "block")


def _find_block(part: Part) -> str | None:
    """Return the path of the block whose layers these are: ``block_1``; None if their names tell no block."""
    block = find_block(part.path)
    return block if part.kind == "block" or (part.kind == "layers" and block != part.path) else None


def _find_stage(part: Part) -> Hashable:
    """Return a key that the blocks of one stage share: their series and the shapes of their outputs.

    The key of layers in a list has their type too: a pooling layer between two blocks is not part of their stage.
    None for a part of no series (``block_`` or ``features.``), or without shapes.
    """
    shapes = part.rows[-1].get("output_shapes")
    numbered = split_number(_find_block(part) or part.path)
    if part.kind not in ("layers", "block") or not shapes or not numbered or not numbered.series:
        return None
    return numbered.series, shapes, str(part.rows[0]["type"]) if part.kind == "layers" else ""
