"""The zeros among the elements of a model's weights."""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import numpy as np

from ..model.arrays import is_float
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
    return total - sum(map(_count_nonzero, arrays)), total


def _count_nonzero(array: Any) -> int:
    """Return how many elements of an array are not zero; JAX counts in 32 bits, so counts of rows are added here."""
    counts = jax.numpy.count_nonzero(array, axis=tuple(range(1, array.ndim)))
    return int(np.asarray(counts, np.int64).sum())
