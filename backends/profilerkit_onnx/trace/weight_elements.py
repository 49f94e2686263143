"""How many elements of weights are not zero."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from profilerkit import InputError

from ..model.zeros import count_nonzero
from .stored_elements import Read, StoredElements
from .values import Array, Origin, Value

__all__ = ["Elements", "WeightCounter"]


class Elements(NamedTuple):
    """How many elements of a weight are not zero, and how many it has; of a part of it in each turn, of all parts."""

    nonzero: int
    total: int


class WeightCounter:
    """Counts the elements of weights that are not zero.

    Args:
        read: Returns the values of a tensor of the file.
        origins: The origins of stored values, by their numbers.

    Attributes:
        errors: The errors that `count` raised. A trace takes any error for an error of the model; the caller of the
            trace raises the first of these instead.
    """

    def __init__(self, read: Read, origins: Mapping[int, Origin]) -> None:
        self.errors: list[Exception] = []
        self._read = read
        self._stored = StoredElements(read, origins)
        #: By the number of the weight, the number of its zero points, and the axis of the zero points.
        self._elements: dict[tuple[int, int | None, int], Elements] = {}

    def is_weight(self, value: Value) -> bool:
        """Return whether a value is a weight: it follows from tensors of the file."""
        return value.is_stored and self._stored.hold_elements_of_file(value)

    def count(self, weight: Value, zero_point: Value | None, axis: int) -> Elements:
        """Return the element counts of a weight; elements equal to the zero point along an axis count as zeros."""
        key = weight.number, None if zero_point is None else zero_point.number, axis
        if key not in self._elements:
            try:
                self._elements[key] = self._count_anew(weight, zero_point, axis)
            except Exception as error:
                self.errors.append(_explain(error, weight))
                raise
        return self._elements[key]

    def _count_anew(self, weight: Value, zero_point: Value | None, axis: int) -> Elements:
        sparse = self._stored.read_sparse(weight)
        if zero_point is None and sparse is not None:  # not written out, as it may be large
            return Elements(count_nonzero(self._read(sparse.values)), math.prod(sparse.dims))
        points = None if zero_point is None else next(self._stored.compute(zero_point))
        nonzero = total = 0
        for array in self._stored.compute(weight):
            total += array.size
            if points is None:
                nonzero += count_nonzero(array)
            else:
                nonzero += int((array != _place_along(points, array.ndim, axis)).sum())
        return Elements(nonzero, total)


def _explain(error: Exception, weight: Value) -> Exception:
    """Return an error that names the weight that does not fit, in place of numpy's error; any other error as it is."""
    if isinstance(error, InputError) or not isinstance(error, (IndexError, TypeError, ValueError)):
        return error
    return InputError(
        f"a weight of the shape {tuple(weight.shape or ())} does not fit its zero points or indices: {error}; export "
        "the model again"
    )


def _place_along(zero: Array, dimensions: int, axis: int) -> Array:
    """Return zero points in a shape that broadcasts with a weight: one for all, or a row of them along an axis.

    Stacked matrices, as of MatMulInteger, may have a row for each matrix: (3, 5) becomes (3, 1, 5) for (3, 4, 5).
    """
    if zero.size == 1:
        return zero.reshape(())
    if zero.ndim == 1:
        shape = [1] * dimensions
        shape[axis] = zero.size
        return zero.reshape(shape)
    return zero if zero.ndim == dimensions else zero.reshape(zero.shape[0], 1, -1)
