"""The zeros among the elements of a model's weights."""

from __future__ import annotations

from math import prod

from ..model.arrays import count_nonzero, is_float
from ..model.subject import Subject

__all__ = ["zero_weights"]


def zero_weights(subject: Subject) -> tuple[int, int]:
    """Return how many elements of the float parameters are zero, and how many there are; tied ones count once.

    Raises `WithoutValuesError` if the parameters have no values.
    """
    subject.require_values()
    parameters = [leaf.value for leaf in subject.leaves if leaf.is_parameter and is_float(leaf.value)]
    arrays = {id(array): array for array in parameters}.values()
    total = sum(prod(array.shape) for array in arrays)
    return total - sum(count_nonzero(array) for array in arrays), total
