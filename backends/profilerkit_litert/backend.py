"""The LiteRT backend: `Backend` for the models of ``.tflite`` files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, ClassVar

from profilerkit import DeviceNotAvailableError, ModelInputs, ModelTrace, NotOfferedError, Run
from profilerkit.backend import AS_IT_IS, DEVICE, Device, DeviceLike, RunOptions
from profilerkit.backend_kit.array_backend import TimedArrayBackend
from profilerkit.backend_kit.installed import find_version
from profilerkit.backend_kit.numpy_data import Declared
from profilerkit.backend_kit.operator_costs import OperatorCosts
from profilerkit.backend_kit.ran_nodes import RanGraph
from profilerkit.devices import processor
from profilerkit.devices.info import DeviceInfo
from profilerkit.process.contents import list_contents
from profilerkit.protocols import (
    FitsInputs,
    MeasuresMemory,
    NamesDevices,
    NoticesTraining,
    TimesLayers,
    TimesOperators,
)

from .costs import COSTS, OPERATORS
from .model.inputs import fit_inputs, list_declared
from .model.reading import LiteRTModel, open_model
from .running.runs import MODES, measure_arena, prepare_run
from .running.timing import time_nodes
from .trace.tracing import read_layers, trace_model

__all__ = ["LiteRTBackend"]


class LiteRTBackend(
    TimedArrayBackend, FitsInputs, MeasuresMemory, NamesDevices, NoticesTraining, TimesLayers, TimesOperators
):
    """Profiles the paths of ``.tflite`` files, their bytes, and `LiteRTModel`.

    The execution modes are the kernels that run.
    """

    name: ClassVar[str] = "litert"
    execution_modes: ClassVar[tuple[str, ...]] = tuple(MODES)
    noun: ClassVar[str] = "a model of LiteRT"
    operators: ClassVar[OperatorCosts] = OPERATORS

    def open_model(self, model: Any) -> Any:
        """Return the `LiteRTModel` of a path or of the bytes of a file."""
        return open_model(model)

    def accepts(self, model: Any) -> bool:
        """Return whether the model is a `LiteRTModel`, or the bytes of a file."""
        return isinstance(model, (LiteRTModel, bytes, bytearray))

    def model_name(self, model: Any) -> str:
        """Return the name of the file, or of the model that it was converted from."""
        return read_layers(model).types[""]

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return "cpu"; raise `DeviceNotAvailableError` for any other device."""
        if DEVICE("device", device) not in (None, Device.CPU):
            raise DeviceNotAvailableError(f"device {device!r} is not there: the litert backend runs models on the CPU")
        return "cpu"

    def device_info(self, device: DeviceLike = None) -> DeviceInfo:
        """Return the known figures of the CPU."""
        self.resolve_device(None, device)
        return processor()

    def list_declared(self, model: Any) -> Sequence[Declared]:
        """Return the inputs that the signature declares."""
        return list_declared(model)

    def fit_inputs(self, model: Any, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs with the channels last if the model declares them so."""
        return fit_inputs(model, inputs)

    def trace_opened(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Trace the graph on shapes alone."""
        return trace_model(model, inputs)

    def run(self, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> AbstractContextManager[Run]:
        """Return the context of a `Run` of the interpreter; the first call is its making, and one pass."""
        self.resolve_device(model, options.device)
        return prepare_run(model, inputs, self.mode(options), options.num_threads)

    def time_nodes(
        self, model: Any, inputs: ModelInputs, device: str, passes: int, export: str | PathLike[str] | None = None
    ) -> RanGraph:
        """Return the operators that LiteRT or XNNPACK ran; they write no trace of a pass."""
        if export is not None:
            raise NotOfferedError("the litert backend writes no trace of a pass: give no export")
        return time_nodes(model, inputs, passes)

    def measure_memory(self, model: Any, inputs: ModelInputs, device: DeviceLike = None) -> int:
        """Return the bytes that the interpreter has planned for the tensors of a pass."""
        self.resolve_device(model, device)
        return measure_arena(model, inputs)

    def fingerprint(self, model: Any, values: bool = True) -> object:
        """Return a value that changes with the formulas of plugins: a model itself cannot be changed."""
        return id(model.content), model.signature.key, list_contents(COSTS.list_added())

    def environment(self) -> Mapping[str, str]:
        """Return the version of LiteRT."""
        return {"ai_edge_litert": find_version("ai_edge_litert")}
