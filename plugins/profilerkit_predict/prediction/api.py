"""`predict`: the time of a model on a device, in one line."""

from __future__ import annotations

from typing import Any

from profilerkit.arguments.checks import FLAG
from profilerkit.backend import Backend
from profilerkit.devices.catalog import device
from profilerkit.devices.info import DeviceInfo
from profilerkit.profiler import make_profiler
from profilerkit.trace.records import ModelTrace

from .predicting import Prediction, predict_trace

__all__ = ["predict"]


def predict(
    model: Any,
    inputs: Any = None,
    *,
    on: DeviceInfo | str,
    input_shape: Any = None,
    batch_size: int | None = None,
    training: bool = False,
    dtype: str | None = None,
    compiled: bool = False,
    backend: Backend | str | None = None,
) -> Prediction:
    """Predict the time of a forward pass or a training step on a device; nothing is run or measured.

    >>> from torch import nn
    >>> predicted = predict(nn.Linear(8, 2), input_shape=(8,), on="h100")
    >>> predicted.tier, predicted.binds, predicted.high
    ('data sheet', 'traffic', None)

    Args:
        model: A model of any framework that has a backend.
        inputs: Example inputs; see `profilerkit.profile` for this, ``input_shape``, ``batch_size`` and ``backend``.
        on: The device: a `DeviceInfo`, a name, or the path of a TOML file, calibrated or not.
        input_shape: The shape of one sample, instead of inputs.
        batch_size: The samples in one pass.
        training: If True, predict a training step: the forward pass in training mode, and the gradients.
        dtype: The dtype of matrix products, such as "bf16" or "tf32". Default: the dtype of the model.
        compiled: If True, predict a compiled model, whose operators are fused.
        backend: A backend or its name. Default: the backend of the model's framework.

    Raises:
        DeviceNotKnownError: No device of that name is described.
        UnknownPeakError: The device's peak for a dtype of the model's products is not known.
    """
    where = device(on)
    profiler = make_profiler(model, inputs=inputs, input_shape=input_shape, backend=backend)
    arguments: dict[str, Any] = {} if batch_size is None else {"batch_size": batch_size}
    key = "training_trace" if FLAG("training", training) else "trace"
    trace: ModelTrace = profiler.compute_status(key, **arguments)
    return predict_trace(trace, where, dtype=dtype, compiled=compiled)
