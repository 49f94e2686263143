"""The batches of backends that run on numpy arrays: made, cut, and converted from tensors of torch and TensorFlow."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from ..errors import InputError
from ..inputs import TensorSpec

__all__ = ["as_tensor", "random_tensor", "with_batch_size"]


def as_tensor(value: Any) -> Any:
    """Return an array for a tensor of torch or TensorFlow, and anything else as it is."""
    if isinstance(value, np.ndarray) or type(value).__module__.partition(".")[0] not in ("torch", "tensorflow"):
        return value
    detach = getattr(value, "detach", None)
    if detach is not None:
        value = detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # which numpy lacks
            import ml_dtypes

            return value.float().numpy().astype(ml_dtypes.bfloat16)
    return value.numpy() if hasattr(value, "numpy") else value


def random_tensor(spec: TensorSpec, batch_size: int) -> np.ndarray[Any, Any]:
    """Return normal values for floats and zeros for all else: valid for an embedding of any size."""
    shape, dtype = (batch_size, *spec.shape), _find_dtype(spec.dtype)
    if dtype.kind in "fV":  # V: those of ml_dtypes
        return np.random.default_rng(0).normal(size=shape).astype(dtype)
    return np.zeros(shape, dtype)


def _find_dtype(name: str) -> np.dtype[Any]:
    """Return a dtype of numpy's or, where it is installed, of ml_dtypes'; raise `InputError` for any other name."""
    with suppress(ImportError):
        import ml_dtypes

        name = getattr(ml_dtypes, name, name)
    try:
        return np.dtype(name)
    except TypeError as error:
        raise InputError(f"numpy has no dtype {name!r}; use a name such as 'float32' or 'int64'") from error


def with_batch_size(tensor: np.ndarray[Any, Any], batch_size: int) -> np.ndarray[Any, Any]:
    """Return the array with its first dimension cut, or repeated, to ``batch_size``."""
    if not len(tensor):
        raise InputError("an input has an empty batch, which cannot be repeated to a batch size")
    return np.resize(tensor, (batch_size, *tensor.shape[1:]))
