"""Layouts of images, channels first or last: conversion of inputs to the layout that a model declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["channels_last_order", "in_declared_layout"]


def in_declared_layout(
    tensors: Sequence[Any],
    declared: Sequence[Sequence[int | None]],
    read_shape: Callable[[Any], Sequence[int | None] | None],
    transpose: Callable[[Any, list[int]], Any],
) -> Sequence[Any]:
    """Return the tensors with the channels moved to the end, where that gives the declared shape.

    Args:
        tensors: The positional inputs.
        declared: The shapes that the model declares, the batch first. If their number differs from that of the tensors,
            the tensors are returned unchanged.
        read_shape: Returns the shape of a tensor; None for a value that is not a tensor, or an unknown shape.
        transpose: Returns a tensor with its axes in a given order.
    """
    if len(tensors) != len(declared):
        return tensors

    def move(tensor: Any, expected: Sequence[int | None]) -> Any:
        shape = read_shape(tensor)
        order = None if shape is None else channels_last_order(shape, expected)
        return tensor if order is None else transpose(tensor, order)

    return [move(tensor, expected) for tensor, expected in zip(tensors, declared, strict=True)]


def channels_last_order(shape: Sequence[int | None], declared: Sequence[int | None]) -> list[int] | None:
    """Return the order of axes that converts a channels-first shape to the declared shape.

    A batch of images ``(N, 3, 224, 224)``, the layout of PyTorch, becomes ``(N, 224, 224, 3)`` for an input of shape
    ``(None, 224, 224, 3)``; the same holds for sequences and volumes. None if the shape fits without a change, or does
    not fit in that order either.
    """
    rank = len(declared)
    if len(shape) != rank or rank not in (3, 4, 5) or _fits(shape, declared):
        return None
    order = [0, *range(2, rank), 1]
    return order if _fits([shape[axis] for axis in order], declared) else None


def _fits(shape: Sequence[int | None], declared: Sequence[int | None]) -> bool:
    return all(expected is None or size == expected for size, expected in zip(shape, declared, strict=True))
