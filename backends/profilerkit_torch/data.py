"""Torch's batches: tensors, and numpy arrays turned into tensors."""

from __future__ import annotations

import sys
from typing import Any

import torch

from profilerkit import DataLoader, ForwardPass, InputError, TensorSpec
from profilerkit.arguments.structures import map_leaves
from profilerkit.input_shapes import DEFAULT_DTYPE

from .model.modules import list_parameters
from .untouched.caller_context import apart

__all__ = ["TorchDataLoader", "TorchForwardPass", "as_tensor", "random_tensor", "usual_dtype", "with_batch_size"]


class TorchForwardPass(ForwardPass):
    """Takes a batch apart into the model's inputs and the targets; numpy arrays become tensors."""

    def extract_model_inputs(self, batch: Any) -> Any:
        """Return the inputs of the model in a batch."""
        return super().extract_model_inputs(map_leaves(batch, as_tensor))


class TorchDataLoader(DataLoader):
    """Wraps a ``torch.utils.data.DataLoader``, or any iterable of batches."""

    @property
    def dataset(self) -> Any:
        """The native loader's data set, whose length evaluation functions use."""
        return self.native_dl.dataset  # type: ignore[attr-defined]


def as_tensor(value: Any) -> Any:
    """Return a tensor for a numpy array or an eager tensor of TensorFlow, and any other value as it is."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return value
    if type(value).__module__.startswith("tensorflow.") and hasattr(value, "numpy"):
        value = numpy.array(value.numpy())  # torch wants memory that it may write to
    if not isinstance(value, numpy.ndarray):
        return value
    with apart():
        return torch.from_numpy(value)


def usual_dtype(model: torch.nn.Module) -> str:
    """Return the one floating-point dtype of the model's parameters; float32 if there are several, or none.

    Dtypes of eight bits are for storage: layers with these weights take inputs of another dtype.
    """
    dtypes = {parameter.dtype for parameter in list_parameters(model) if parameter.is_floating_point()}
    if len(dtypes) != 1:
        return DEFAULT_DTYPE
    (dtype,) = dtypes
    return str(dtype).removeprefix("torch.") if dtype.itemsize > 1 else DEFAULT_DTYPE


def random_tensor(spec: TensorSpec, batch_size: int) -> torch.Tensor:
    """Return normal values for floats and zeros for integers: valid for an embedding of any size."""
    dtype = getattr(torch, spec.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise InputError(f"torch has no dtype {spec.dtype!r}; use a name such as 'float32', 'int64' or 'bool'")
    shape = (batch_size, *spec.shape)
    with apart():
        if not (dtype.is_floating_point or dtype.is_complex):
            return torch.zeros(shape, dtype=dtype)
        generator = torch.Generator().manual_seed(0)
        working = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, generator=generator, dtype=working).to(dtype)


def with_batch_size(tensor: torch.Tensor, batch_size: int) -> torch.Tensor:
    """Return the tensor with its first dimension cut, or repeated, to ``batch_size``."""
    with apart():
        length = tensor.shape[0]
        if length == 0 and batch_size > 0:
            raise InputError("an input has an empty batch, which cannot be repeated to a batch size")
        if length < batch_size:
            repeats = -(-batch_size // length)
            tensor = tensor.repeat(repeats, *[1] * (tensor.dim() - 1))
        return tensor[:batch_size]
