"""Images with their channels first or last: which of them a model declares, and how the others become those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["channels_last_order", "in_declared_layout"]


def in_declared_layout(
    tensors: Sequence[Any],
    declared: Sequence[Sequence[int | None]],
    shape_of: Callable[[Any], Sequence[int | None] | None],
    transposed: Callable[[Any, list[int]], Any],
) -> Sequence[Any]:
    """Return tensors as they are declared, where their channels only need to be moved to the end.

    Args:
        tensors: What is given, by place.
        declared: The shapes that the model declares, the batch first; other numbers of them change nothing.
        shape_of: Returns the shape of a tensor; None for what is none, or has no known one.
        transposed: Returns a tensor with its axes in an order.
    """
    if len(tensors) != len(declared):
        return tensors

    def moved(tensor: Any, expected: Sequence[int | None]) -> Any:
        shape = shape_of(tensor)
        order = None if shape is None else channels_last_order(shape, expected)
        return tensor if order is None else transposed(tensor, order)

    return [moved(tensor, expected) for tensor, expected in zip(tensors, declared, strict=True)]


def channels_last_order(shape: Sequence[int | None], declared: Sequence[int | None]) -> list[int] | None:
    """Return the order of axes in which a channels-first shape is the declared one.

    A batch of images ``(N, 3, 224, 224)``, as PyTorch has them, becomes ``(N, 224, 224, 3)`` for an input of shape
    ``(None, 224, 224, 3)``; so do sequences and volumes. None for what fits as it is, or not even so.
    """
    rank = len(declared)
    if len(shape) != rank or rank not in (3, 4, 5) or _fits(shape, declared):
        return None
    order = [0, *range(2, rank), 1]
    return order if _fits([shape[axis] for axis in order], declared) else None


def _fits(shape: Sequence[int | None], declared: Sequence[int | None]) -> bool:
    return all(expected is None or size == expected for size, expected in zip(shape, declared, strict=True))
