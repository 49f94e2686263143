"""The bases of backends that read a format and run it on numpy arrays: nothing of a model is changed or trained."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..backend import Backend, DeviceLike
from ..declared_inputs import make_inputs
from ..input_shapes import TensorSpec
from ..inputs import ModelInputs
from ..times.layer_times import LayerTime
from ..times.operator_times import OperatorTimes
from ..trace.conditions import formulas_used
from ..trace.records import ModelTrace
from . import numpy_data, ran_nodes
from .numpy_data import Declared
from .operator_costs import OperatorCosts
from .ran_nodes import RanGraph

__all__ = ["ArrayBackend", "TimedArrayBackend"]

T = TypeVar("T")


class ArrayBackend(Backend):
    """A backend whose tensors are numpy arrays, and whose models have neither modes nor a device of their own.

    It implements the protocols `DeclaresInputs`, `LimitsMetrics`, `OpensModels` and `TakesCosts`.

    Attributes:
        noun: The name of a model in messages: "an ONNX model".
        operators: The costs of operators, to which plugins add.
    """

    offered_options: ClassVar[tuple[str, ...]] = ("num_threads",)
    shares_costs: ClassVar[bool] = True
    noun: ClassVar[str]
    operators: ClassVar[OperatorCosts]

    @abstractmethod
    def open_model(self, model: Any) -> Any:
        """Return the model in the file at a path, which all other methods take; anything else as it is."""

    @abstractmethod
    def list_declared(self, model: Any) -> Sequence[Declared]:
        """Return the inputs that an opened model declares."""

    @abstractmethod
    def trace_opened(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Trace an opened model on the shapes of arrays alone; without inputs its layers and weights."""

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

    def example_inputs(self, model: Any, batch_size: int | None = None) -> ModelInputs | None:
        """Return inputs as the model declares them."""
        declared = numpy_data.declare_call(self.list_declared(model))
        return None if declared is None else make_inputs(declared, batch_size, self.random_tensor)

    def trace(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Trace the graph on shapes alone; weights are not read."""
        trace = self.trace_opened(model, inputs)
        formulas = formulas_used(trace, self.operators.registry.list_added())
        return replace(trace, conditions=(*trace.conditions, *formulas))

    def evaluate(self, model: Any, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``: a model has no modes, and stays where it is.

        Raises `DeviceNotAvailableError` for a device that is not there.
        """
        self.resolve_device(model, device)
        return call()

    def preserve(self, model: Any) -> AbstractContextManager[None]:
        """Return a context that does nothing: no method changes a model."""
        return nullcontext()

    def inapplicable(self, model: Any) -> Mapping[str, str]:
        """Say that nothing of a model is trained."""
        return {"trainable_params": f"{self.noun} holds constants, and does not say which of them were trained"}

    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        """Take cost formulas of plugins by operator, as its format spells it; all of them or none."""
        self.operators.add_whole(costs)


class TimedArrayBackend(ArrayBackend):
    """An `ArrayBackend` whose runtime tells the time of each node of the graph that it runs; no pass goes backward.

    It also implements the protocols `TimesLayers` and `TimesOperators`.
    """

    @abstractmethod
    def time_nodes(
        self, model: Any, inputs: ModelInputs, device: str, passes: int, export: str | PathLike[str] | None = None
    ) -> RanGraph:
        """Run an opened model several times and return the nodes that ran; ``device`` is a result of `resolve_device`.

        With ``export`` the runtime's own trace of a pass is written to a file. Raises `NotOfferedError` if it writes
        none.
        """

    def layer_times(
        self, model: Any, inputs: ModelInputs, device: DeviceLike = None, passes: int = 10, backward: bool = True
    ) -> Sequence[LayerTime]:
        """Return the forward seconds of each layer's own operators; there is no backward pass."""
        resolved = self.resolve_device(model, device)
        return ran_nodes.time_layers(self.time_nodes(model, inputs, resolved, passes))

    def operator_times(
        self,
        model: Any,
        inputs: ModelInputs,
        device: DeviceLike = None,
        passes: int = 10,
        backward: bool = True,
        export: str | PathLike[str] | None = None,
    ) -> OperatorTimes:
        """Return the seconds of each operator that the runtime ran."""
        resolved = self.resolve_device(model, device)
        return ran_nodes.time_operators(self.time_nodes(model, inputs, resolved, passes, export))
