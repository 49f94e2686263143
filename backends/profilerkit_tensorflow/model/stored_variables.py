"""What TensorFlow stores of a variable: its elements, their bytes, and which variables are the same one."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from ..compat.variables import find_whole_variable
from .kinds import find_stored_variable

__all__ = ["count_bytes", "count_elements", "identify"]


def count_elements(variable: Any) -> int:
    """Return how many elements a variable stores; 0 for one without a size yet."""
    shape = tuple(variable.shape)
    return 0 if None in shape else math.prod(int(size) for size in shape)


def count_bytes(variable: Any) -> int:
    """Return the bytes that a variable stores."""
    return count_elements(variable) * int(tf.as_dtype(variable.dtype).size)


def identify(variable: Any) -> int:
    """Return a number that is equal for a variable, the Keras variable around it, and its copy on each device.

    A mirrored variable (``tf.distribute.MirroredStrategy``) has a copy on each device, and graphs refer to the copies.
    """
    return id(find_whole_variable(find_stored_variable(variable)))
