"""Parts of a model, each one line of a report: a layer, equal layers, a block of layers, or the others of a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .block_names import find_block, label_blocks, name_inside, split_number

__all__ = ["Part", "PartKind", "Row", "gather", "join_alike"]

Row: TypeAlias = Mapping[str, Any]
PartKind: TypeAlias = Literal["layers", "block", "own", "others"]


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
    kind: PartKind = "layers"
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


def gather(parts: Sequence[Part]) -> Part:
    """Return the part of all others."""
    return Part("", _list_rows(parts), "others")


def join_alike(
    parts: Sequence[Part], outer: str, find_key: Callable[[Part], Any], is_large: Callable[[Part], bool]
) -> list[Part]:
    """Return parts, with neighbors of the same key joined, and with them the small parts between them.

    Args:
        parts: Parts right inside a layer, in their order.
        outer: The path of that layer.
        find_key: Returns the key of a part; None for one that is not joined.
        is_large: Returns whether a part ends a run of neighbors that it does not belong to.
    """
    runs: list[list[Part]] = []
    last_large = 0  # the run that goes on with the next part of its key; small parts may stand behind it
    for part in parts:
        key = find_key(part)
        if runs and key is not None and key == find_key(runs[last_large][0]):
            runs[last_large:] = [[*(earlier for run in runs[last_large:] for earlier in run), part]]
            continue
        if is_large(part):
            last_large = len(runs)
        runs.append([part])
    return [run[0] if len(run) == 1 else _join_blocks(run, outer) for run in runs]


def _join_blocks(parts: Sequence[Part], outer: str) -> Part:
    """Return blocks right inside the layer ``outer`` as one part: ``features.4-6``, ``block_3-5``."""
    rows = _list_rows(parts)
    first, last = (name_inside(find_block(row["path"]), outer) for row in (rows[0], rows[-1]))
    return Part(label_blocks(first, last), rows, "block")


def _list_rows(parts: Sequence[Part]) -> tuple[Row, ...]:
    return tuple(row for part in parts for row in part.rows)
