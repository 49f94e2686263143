"""Arrays and their stand-ins without values: what is one, its bytes, and how many of its elements are not zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

__all__ = ["count_bytes", "count_nonzero", "is_array", "is_float", "make_struct"]


def is_array(value: Any) -> bool:
    """Return whether a value is an array of JAX or numpy, or the shape of one."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biufcV"
    return isinstance(value, (jax.Array, jax.ShapeDtypeStruct))


def is_float(value: Any) -> bool:
    """Return whether the elements of an array are floating-point or complex numbers."""
    return bool(jax.numpy.issubdtype(value.dtype, jax.numpy.inexact))


def count_bytes(shape: Sequence[int], dtype: Any) -> int:
    """Return the bytes of an array on a device, where XLA packs numbers of 2 and 4 bits; 0 for a token."""
    itemsize = int(getattr(dtype, "itemsize", 0))
    bits = jax.dtypes.itemsize_bits(dtype) if itemsize == 1 else 8 * itemsize
    return -(-math.prod(shape) * bits // 8)  # rounded up, exactly


def count_nonzero(array: Any) -> int:
    """Return how many elements of an array are not zero; JAX counts in 32 bits, so counts of rows are added here."""
    counts = jax.numpy.count_nonzero(array, axis=tuple(range(1, array.ndim)))
    return int(np.asarray(counts, np.int64).sum())


def make_struct(value: Any) -> jax.ShapeDtypeStruct:
    """Return shape and dtype of an array as JAX has it: without 64-bit numbers unless they are enabled."""
    dtype = value.dtype
    if isinstance(dtype, np.dtype):
        dtype = jax.dtypes.canonicalize_dtype(dtype)
    return jax.ShapeDtypeStruct(tuple(value.shape), dtype, weak_type=bool(getattr(value, "weak_type", False)))
