"""The batches of JAX models: arrays of JAX and numpy, and the tensors of torch and TensorFlow that become arrays."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from profilerkit import InputError, TensorSpec
from profilerkit.backend_kit.numpy_data import as_tensor

__all__ = ["as_tensor", "is_tensor", "random_tensor", "with_batch_size"]


def is_tensor(value: Any) -> bool:
    """Return whether a value is an array, or the shape of one."""
    return isinstance(value, (jax.Array, np.ndarray, jax.ShapeDtypeStruct))


def random_tensor(spec: TensorSpec, batch_size: int) -> Any:
    """Return normal values for floats and zeros for all else: valid for an embedding of any size."""
    shape = (batch_size, *spec.shape)
    try:
        dtype = jax.dtypes.canonicalize_dtype(jax.numpy.dtype(spec.dtype))
        is_float = jax.numpy.issubdtype(dtype, jax.numpy.floating)
        return jax.numpy.asarray(np.random.default_rng(0).normal(size=shape) if is_float else np.zeros(shape), dtype)
    except TypeError as error:  # of a name that is no dtype, and of one that numpy alone has
        raise InputError(f"JAX has no dtype {spec.dtype!r}; use a name such as 'float32' or 'int32'") from error


def with_batch_size(tensor: Any, batch_size: int) -> Any:
    """Return the array with its first dimension cut, or repeated, to ``batch_size``."""
    if not tensor.shape or not tensor.shape[0]:
        raise InputError("an input has an empty batch, which cannot be repeated to a batch size")
    shape = (batch_size, *tensor.shape[1:])
    if isinstance(tensor, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(shape, tensor.dtype)
    return tensor[np.arange(batch_size) % tensor.shape[0]]  # keys of random numbers too, which numpy does not take
