"""Slices as TensorFlow and LiteRT write them: numbers, and masks whose bits say what each number means."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import NamedTuple

__all__ = ["SliceMasks", "make_index"]


class SliceMasks(NamedTuple):
    """The kinds of the entries of a slice; the lowest bit of each mask belongs to the first entry.

    Attributes:
        begin: Slices from the first element on: ``:3``.
        end: Slices up to the last element: ``2:``.
        ellipsis: Stand for all dimensions that no other entry is for: ``...``.
        new_axis: Add a dimension: ``None``.
        shrink_axis: Single elements, at the begin of the entry: ``0``.
    """

    begin: int
    end: int
    ellipsis: int
    new_axis: int
    shrink_axis: int


def make_index(
    begins: Sequence[int], ends: Sequence[int], strides: Sequence[int], masks: SliceMasks
) -> tuple[slice | int | EllipsisType | None, ...]:
    """Return the index of an array that a slice is.

    >>> make_index([1, 0, 2], [4, 0, 0], [1, 1, 1], SliceMasks(begin=0, end=0, ellipsis=2, new_axis=0, shrink_axis=4))
    (slice(1, 4, 1), Ellipsis, 2)
    """
    index: list[slice | int | EllipsisType | None] = []
    for position, (begin, end, stride) in enumerate(zip(begins, ends, strides, strict=True)):
        bit = 1 << position
        if masks.ellipsis & bit:
            index.append(Ellipsis)
        elif masks.new_axis & bit:
            index.append(None)
        elif masks.shrink_axis & bit:
            index.append(begin)
        else:
            index.append(slice(None if masks.begin & bit else begin, None if masks.end & bit else end, stride))
    return tuple(index)
