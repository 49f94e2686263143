"""Parts of a model, each one line of a report: a layer, equal layers, a block of layers, or the others of a layer.

Some models hold their blocks in lists: ``layer.0``, ``layer.1``. Others have them in names alone, as Keras models do:
``block_1_expand`` and ``block_1_project`` are layers of the block ``block_1``, and ``block_1`` and ``block_2`` are
blocks of the series ``block_``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = [
    "Numbered",
    "Part",
    "PartKind",
    "Row",
    "append_name",
    "find_block",
    "gather",
    "is_numbered",
    "join_alike",
    "join_blocks",
    "label_blocks",
    "label_layers",
    "split_number",
]

#: The name of a block, which words may follow: ``block_1`` of ``block_1_expand``, ``b2a`` of ``b2a_bn``.
_BLOCK = re.compile(r"(.*?\d[a-z]?)(?:_(?=[A-Za-z])|$)")
#: The series of a block, and its number in it: ``block_`` and ``3``, ``block`` and ``2a``.
_NUMBERED = re.compile(r"(.*?)(\d+[a-z]?)")


class Numbered(NamedTuple):
    """A path that ends in a number, split: ``block_`` and ``3``, ``features.`` and ``12``."""

    series: str
    number: str


def is_numbered(path: str) -> bool:
    """Return whether a layer is an element of a list: its name is a number."""
    return path.rpartition(".")[2].isdecimal()


def find_block(path: str) -> str:
    """Return the path of the block that the name of a layer tells; the path itself if it tells none.

    >>> find_block("net.conv4_block2_1_bn"), find_block("block_1_expand"), find_block("conv2d_94"), find_block("add")
    ('net.conv4', 'block_1', 'conv2d_94', 'add')
    """
    outer, _, name = path.rpartition(".")
    match = _BLOCK.match(name)
    return append_name(outer, match[1] if match else name)


def split_number(path: str) -> Numbered | None:
    """Return the series and the number of a path that ends in a number; None for another.

    >>> split_number("features.12")
    Numbered(series='features.', number='12')
    """
    match = _NUMBERED.fullmatch(path)
    return Numbered(match[1], match[2]) if match else None


def append_name(path: str, name: str) -> str:
    """Return the path of a layer inside another one."""
    return f"{path}.{name}" if path else name


def label_layers(names: Sequence[str]) -> str:
    """Return the label of layers that stand together: their name, their numbers in a list, or their block.

    >>> label_layers(["head"]), label_layers(["layer.0", "layer.1"]), label_layers(["b1_conv", "b1_norm"])
    ('head', 'layer.0-1', 'b1')
    """
    if len(names) == 1:
        return names[0]
    return label_blocks(names[0], names[-1]) if is_numbered(names[0]) else find_block(names[0])


def label_blocks(first: str, last: str) -> str:
    """Return the label of blocks of a series, from the first to the last one.

    >>> label_blocks("features.4", "features.6"), label_blocks("block_3", "block_5"), label_blocks("stem", "stem")
    ('features.4-6', 'block_3-5', 'stem')
    """
    if first == last:
        return first
    numbered = split_number(last)
    return f"{first}-{numbered.number if numbered else last}"


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

    def find_series(self) -> str | None:
        """Return the series of blocks that this is one of, ``block_`` or ``features.``; None if it is in none."""
        numbered = split_number(self.find_block() or self.path)
        return numbered.series or None if numbered and self.kind in ("layers", "block") else None

    def find_stage(self) -> tuple[str, ...] | None:
        """Return a key that the blocks of one stage share: their series and the shapes of their outputs.

        The key of layers in a list has their type too: a pooling layer between two blocks is not part of their stage.
        None for a part of no series, or without shapes.
        """
        series, shapes = self.find_series(), self.rows[-1].get("output_shapes")
        if series is None or not shapes:
            return None
        return series, str(shapes), str(self.rows[0]["type"]) if self.kind == "layers" else ""


def gather(parts: Sequence[Part]) -> Part:
    """Return the part of all others."""
    return Part("", tuple(row for part in parts for row in part.rows), "others")


def join_blocks(parts: Sequence[Part], outer: str) -> Part:
    """Return neighbors right inside the layer ``outer`` as one part: ``features.4-6``, ``block_3-5``."""
    if len(parts) == 1:
        return parts[0]
    first = _find_block_of_row(parts[0], parts[0].rows[0])
    last = _find_block_of_row(parts[-1], parts[-1].rows[-1])
    label = label_blocks(first[len(outer) :].lstrip("."), last[len(outer) :].lstrip("."))
    return Part(label, tuple(row for part in parts for row in part.rows), "block")


def _find_block_of_row(part: Part, row: Row) -> str:
    path = str(row["path"])
    return find_block(path) if part.kind in ("layers", "block") else path


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
    between: list[Part] = []  # small parts behind the last run, which are joined with it if it goes on
    for part in parts:
        key = find_key(part)
        if runs and key is not None and key == find_key(runs[-1][0]):
            runs[-1] += [*between, part]
            between = []
        elif runs and not is_large(part):
            between.append(part)
        else:
            runs += [*([small] for small in between), [part]]
            between = []
    runs += [[small] for small in between]
    return [join_blocks(run, outer) for run in runs]
