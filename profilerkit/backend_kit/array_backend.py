"""The base of backends that read a format and run it on numpy arrays: nothing of a model is changed or trained."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np

from ..backend import Backend, DeviceLike
from ..input_shapes import TensorSpec
from . import numpy_data

__all__ = ["ArrayBackend"]

T = TypeVar("T")


class ArrayBackend(Backend):
    """A backend whose tensors are numpy arrays, and whose models have neither modes nor a device of their own."""

    def is_tensor(self, value: Any) -> bool:
        """Return whether a value is a numpy array."""
        return isinstance(value, np.ndarray)

    def as_tensor(self, value: Any) -> Any:
        """Return an array for a tensor of torch or TensorFlow."""
        return numpy_data.as_tensor(value)

    def random_tensor(self, spec: TensorSpec, batch_size: int) -> Any:
        """Return an array for a spec: normal for floats, zeros for integers."""
        return numpy_data.random_tensor(spec, batch_size)

    def with_batch_size(self, tensor: Any, batch_size: int) -> Any:
        """Return the array cut or repeated to a batch size."""
        return numpy_data.with_batch_size(tensor, batch_size)

    def evaluate(self, model: Any, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``: a model has no modes, and stays where it is.

        Raises `DeviceNotAvailableError` for a device that is not there.
        """
        self.resolve_device(model, device)
        return call()

    def preserve(self, model: Any) -> AbstractContextManager[None]:
        """Return a context that does nothing: no method changes a model."""
        return nullcontext()
