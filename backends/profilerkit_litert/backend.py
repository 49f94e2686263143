"""The LiteRT backend: `Backend` for the models of ``.tflite`` files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from profilerkit import DeviceNotAvailableError, ModelInputs, ModelTrace, Run
from profilerkit.backend import AS_IT_IS, DEVICE, Device, DeviceLike, RunOptions
from profilerkit.backend_kit.array_backend import ArrayBackend
from profilerkit.backend_kit.installed import find_version
from profilerkit.declared_inputs import make_inputs
from profilerkit.devices.here import processor
from profilerkit.devices.info import DeviceInfo
from profilerkit.process.contents import list_contents
from profilerkit.protocols import (
    DeclaresInputs,
    FitsInputs,
    LimitsMetrics,
    MeasuresMemory,
    NamesDevices,
    NoticesTraining,
    OpensModels,
    TakesCosts,
)

from .costs.registry import COSTS, register_op_cost
from .model.inputs import fit_inputs, read_declared_inputs
from .model.reading import LiteRTModel, open_model
from .running.runs import MODES, measure_arena, prepare_run
from .trace.tracing import trace_model

__all__ = ["LiteRTBackend"]


class LiteRTBackend(
    ArrayBackend,
    DeclaresInputs,
    FitsInputs,
    LimitsMetrics,
    MeasuresMemory,
    NamesDevices,
    NoticesTraining,
    OpensModels,
    TakesCosts,
):
    """Profiles the paths of ``.tflite`` files, their bytes, and `LiteRTModel`.

    The execution modes are the kernels that run.
    """

    name: ClassVar[str] = "litert"
    execution_modes: ClassVar[tuple[str, ...]] = tuple(MODES)
    offered_options: ClassVar[tuple[str, ...]] = ("num_threads",)
    shares_costs: ClassVar[bool] = True

    def open_model(self, model: Any) -> Any:
        """Return the `LiteRTModel` of a path or of the bytes of a file."""
        return open_model(model)

    def accepts(self, model: Any) -> bool:
        """Return whether the model is a `LiteRTModel`, or what one is read from."""
        return isinstance(model, (LiteRTModel, bytes, bytearray))

    def model_name(self, model: Any) -> str:
        """Return the name of the file, or of the model that it was converted from."""
        return str(self.trace(open_model(model), None).layers[0].type)

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return "cpu"; raise `DeviceNotAvailableError` for any other device."""
        if DEVICE("device", device) not in (None, Device.CPU):
            raise DeviceNotAvailableError(f"device {device!r} is not there: the litert backend runs models on the CPU")
        return "cpu"

    def device_info(self, device: DeviceLike = None) -> DeviceInfo:
        """Return what is known of the CPU."""
        self.resolve_device(None, device)
        return processor()

    def example_inputs(self, model: Any, batch_size: int | None = None) -> ModelInputs | None:
        """Return inputs as the signature declares them."""
        declared = read_declared_inputs(open_model(model))
        return None if declared is None else make_inputs(declared, batch_size, self.random_tensor)

    def fit_inputs(self, model: Any, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs with the channels last if the model declares them so."""
        return fit_inputs(open_model(model), inputs)

    def trace(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Trace the graph on shapes alone."""
        return trace_model(open_model(model), None if inputs is None else inputs.map(self.as_tensor))

    @contextmanager
    def run(self, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Iterator[Run]:
        """Yield a `Run` of the interpreter; the first call is its making, and one pass."""
        mode = self.mode(options)
        self.resolve_device(model, options.device)
        with prepare_run(open_model(model), inputs, mode, options.num_threads) as run:
            yield run

    def measure_memory(self, model: Any, inputs: ModelInputs, device: DeviceLike = None) -> int:
        """Return the bytes that the interpreter has planned for the tensors of a pass."""
        self.resolve_device(model, device)
        return measure_arena(open_model(model), inputs)

    def inapplicable(self, model: Any) -> Mapping[str, str]:
        """Say that nothing of a model is trained."""
        return {"trainable_params": "a model of LiteRT holds constants, and does not say which of them were trained"}

    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        """Take cost formulas of plugins by operator, ``"CONV_2D"`` or a custom one's name; all of them or none."""
        COSTS.register_whole(costs, register_op_cost)

    def fingerprint(self, model: Any, values: bool = True) -> object:
        """Return a value that changes with the formulas of plugins: a model itself cannot be changed."""
        opened = open_model(model)
        return id(opened.content), opened.signature.key, list_contents(COSTS.list_added())

    def environment(self) -> Mapping[str, str]:
        """Return the version of LiteRT."""
        return {"ai_edge_litert": find_version("ai_edge_litert")}
