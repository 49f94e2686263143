"""The ONNX backend: `Backend` spelt out for ``onnx.ModelProto``, files and programs. It counts, and runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, TypeVar

import numpy as np
import onnx

from profilerkit import Backend, Device, DeviceNotAvailableError, ModelInputs, ModelTrace, TensorSpec
from profilerkit.backend import DeviceLike
from profilerkit.declared_inputs import made_from
from profilerkit.protocols import DeclaresInputs, LimitsMetrics, OpensModels, TakesCosts

from . import data
from .costs import register_op_cost, scoped_costs
from .loaders import is_program, opened
from .model.declared_inputs import declared_inputs
from .model.scopes import scopes_of
from .trace.tracing import trace_model

__all__ = ["OnnxBackend"]

T = TypeVar("T")

#: What torch's older exporter calls every graph, and its newer one.
_NAMELESS = ("", "main_graph", "torch_jit")


class OnnxBackend(Backend, DeclaresInputs, LimitsMetrics, OpensModels, TakesCosts):
    """Profiles ``onnx.ModelProto``, the paths of ``.onnx`` files, and ``torch.onnx.ONNXProgram``."""

    name: ClassVar[str] = "onnx"
    shares_costs: ClassVar[bool] = True

    def opened(self, model: Any) -> Any:
        """Return the ``ModelProto`` of a path or of an exported program."""
        return opened(model)

    def accepts(self, model: Any) -> bool:
        """Say whether the model is a ``ModelProto``, or what one is made of when it is opened."""
        return isinstance(model, onnx.ModelProto) or is_program(model)

    def model_name(self, model: Any) -> str:
        """Return the class of the model that was exported, the name of the graph, or ``ModelProto``."""
        proto = opened(model)
        root = scopes_of(proto).types[""]
        return type(proto).__name__ if root in _NAMELESS else root

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return "cpu", where shapes are inferred."""
        if device not in (None, Device.CPU, "cpu"):
            raise DeviceNotAvailableError(
                f"device {device!r} is not there; the onnx backend counts without running, on 'cpu' alone"
            )
        return "cpu"

    def is_tensor(self, value: Any) -> bool:
        """Say whether a value is a numpy array."""
        return isinstance(value, np.ndarray)

    def as_tensor(self, value: Any) -> Any:
        """Return an array for a tensor of torch or TensorFlow."""
        return data.as_tensor(value)

    def random_tensor(self, spec: TensorSpec, batch_size: int) -> Any:
        """Return an array for a spec: normal for floats, zeros for integers."""
        return data.random_tensor(spec, batch_size)

    def with_batch_size(self, tensor: Any, batch_size: int) -> Any:
        """Return the array cut or repeated to a batch size."""
        return data.with_batch_size(tensor, batch_size)

    def example_inputs(self, model: Any, batch_size: int | None = None) -> ModelInputs | None:
        """Return inputs as the graph declares them."""
        declared = declared_inputs(opened(model))
        return None if declared is None else made_from(declared, batch_size, self.random_tensor)

    def trace(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Trace the graph on shapes alone; weights are not read."""
        return trace_model(opened(model), None if inputs is None else inputs.map(data.as_tensor))

    def evaluate(self, model: Any, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``: an ONNX model has no modes, and stays where it is."""
        self.resolve_device(model, device)
        return call()

    def preserved(self, model: Any) -> AbstractContextManager[None]:
        """Return a context that does nothing: no method changes a model."""
        return nullcontext()

    def inapplicable(self, model: Any) -> Mapping[str, str]:
        """Say that nothing of an ONNX model is trained."""
        return {"trainable_params": "an ONNX model holds constants, and does not say which of them were trained"}

    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        """Take cost formulas of plugins by operator, ``"com.example::Attend"``; all of them or none."""
        with scoped_costs():  # a rehearsal, whose errors leave no trace
            _register(costs)
        _register(costs)

    def environment(self) -> Mapping[str, str]:
        """Return onnx's version."""
        return {"onnx": onnx.__version__}


def _register(costs: Mapping[Any, Callable[..., Any]]) -> None:
    for op, formula in costs.items():
        register_op_cost(op, formula)
