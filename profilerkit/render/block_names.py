"""The names of layers that stand together: equal layers of a list, the layers of a block, the blocks of a series.

Some models hold their blocks in lists: ``layer.0``, ``layer.1``. Others have them in names alone, as Keras models do:
``block_1_expand`` and ``block_1_project`` are layers of the block ``block_1``, and ``block_1`` and ``block_2`` are
blocks of the series ``block_``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = [
    "Numbered",
    "append_name",
    "find_block",
    "is_numbered",
    "label_blocks",
    "label_layers",
    "name_inside",
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


def append_name(path: str, name: str) -> str:
    """Return the path of a layer inside another one."""
    return f"{path}.{name}" if path else name


def name_inside(path: str, outer: str) -> str:
    """Return the path of a layer from the layer ``outer`` on, which it is inside of."""
    return path[len(outer) :].lstrip(".")


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
