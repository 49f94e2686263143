"""The batches of ONNX models: numpy arrays, and the tensors of torch that become arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from profilerkit import InputError, TensorSpec

__all__ = ["as_tensor", "random_tensor", "with_batch_size"]


def as_tensor(value: Any) -> Any:
    """Return an array for a tensor of torch or TensorFlow, and anything else as it is."""
    if isinstance(value, np.ndarray) or type(value).__module__.partition(".")[0] not in ("torch", "tensorflow"):
        return value
    detach = getattr(value, "detach", None)
    if detach is not None:
        value = detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # which numpy lacks
            return value.float().numpy().astype(ml_dtypes.bfloat16)
    return value.numpy() if hasattr(value, "numpy") else value


def random_tensor(spec: TensorSpec, batch_size: int) -> np.ndarray[Any, Any]:
    """Return normal values for floats and zeros for all else: valid for an embedding of any size."""
    shape = (batch_size, *spec.shape)
    try:
        dtype = np.dtype(getattr(ml_dtypes, spec.dtype, spec.dtype))
    except TypeError as error:
        raise InputError(f"numpy has no dtype {spec.dtype!r}; use a name such as 'float32' or 'int64'") from error
    if dtype.kind == "f" or hasattr(ml_dtypes, spec.dtype):
        return np.random.default_rng(0).normal(size=shape).astype(dtype)
    return np.zeros(shape, dtype)


def with_batch_size(tensor: np.ndarray[Any, Any], batch_size: int) -> np.ndarray[Any, Any]:
    """Return the array with its first dimension cut, or repeated, to ``batch_size``."""
    if not len(tensor):
        raise InputError("an input has an empty batch, which cannot be repeated to a batch size")
    return np.resize(tensor, (batch_size, *tensor.shape[1:]))
