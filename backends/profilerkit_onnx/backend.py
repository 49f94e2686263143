"""The ONNX backend: `Backend` for ``onnx.ModelProto``, files and programs; onnxruntime runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import onnx

from profilerkit import ModelInputs, ModelTrace, NotOfferedError, Run
from profilerkit.backend import AS_IT_IS, DeviceLike, RunOptions
from profilerkit.backend_kit.array_backend import TimedArrayBackend
from profilerkit.backend_kit.numpy_data import Declared
from profilerkit.backend_kit.operator_costs import OperatorCosts
from profilerkit.backend_kit.ran_nodes import RanGraph
from profilerkit.devices import describe_device, processor
from profilerkit.devices.info import DeviceInfo
from profilerkit.process.contents import list_contents
from profilerkit.protocols import (
    MeasuresMemory,
    NamesDevices,
    NoticesTraining,
    ReadsWeights,
    TimesLayers,
    TimesOperators,
)

from .costs.registry import COSTS, OPERATORS
from .loaders import is_program, open_model
from .model.declared_inputs import count_samples, list_declared
from .model.layer_metadata import read_layers
from .model.model_file import read_stamps
from .model.scopes import find_name
from .model.structure import fingerprint
from .running import devices, profiled
from .running.devices import is_installed, onnxruntime
from .running.runs import prepare_run
from .running.sessions import LEVELS
from .running.timing import time_nodes
from .running.zeros import zero_weights
from .trace.tracing import trace_model

if TYPE_CHECKING:
    from profilerkit_predict.joining.reading import ProfileFile
    from profilerkit_predict.joining.records import Recording

__all__ = ["OnnxBackend"]

#: The names that torch's newer and older exporters give every graph.
_NAMELESS = ("", "main_graph", "torch_jit")


class OnnxBackend(
    TimedArrayBackend,
    MeasuresMemory,
    NamesDevices,
    NoticesTraining,
    ReadsWeights,
    TimesLayers,
    TimesOperators,
):
    """Profiles ``onnx.ModelProto``, the paths of ``.onnx`` files, and ``torch.onnx.ONNXProgram``.

    The execution modes are how far onnxruntime rewrites the graph before it runs it.
    """

    name: ClassVar[str] = "onnx"
    execution_modes: ClassVar[tuple[str, ...]] = tuple(LEVELS)
    noun: ClassVar[str] = "an ONNX model"
    operators: ClassVar[OperatorCosts] = OPERATORS

    def open_model(self, model: Any) -> Any:
        """Return the ``ModelProto`` of a path or of an exported program."""
        return open_model(model)

    def accepts(self, model: Any) -> bool:
        """Return whether the model is a ``ModelProto``, or a source that `open_model` makes a ``ModelProto`` of."""
        return isinstance(model, onnx.ModelProto) or is_program(model)

    def model_name(self, model: Any) -> str:
        """Return the class of the model that was exported, the name of the graph, or ``ModelProto``."""
        root = find_name(model, map(read_layers, model.graph.node))
        return type(model).__name__ if root in _NAMELESS else root

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return the short name of a provider of onnxruntime: "cpu", "cuda:1"; "cpu" for None.

        Raises `DeviceNotAvailableError` for a device that the installed onnxruntime lacks.
        """
        return devices.resolve_device(device)

    def device_info(self, device: DeviceLike = None) -> DeviceInfo:
        """Return the known figures of the CPU; for other devices onnxruntime reports only their provider."""
        name = devices.resolve_device(device)
        return processor() if name == "cpu" else describe_device(name, "gpu")

    def list_declared(self, model: Any) -> Sequence[Declared]:
        """Return the inputs that the graph declares."""
        return list_declared(model)

    def count_samples(self, model: Any, inputs: ModelInputs, trace: ModelTrace | None = None) -> int | None:
        """Return the samples that a recurrent operator takes directly from the inputs: time comes first there."""
        return count_samples(model, inputs)

    def trace_opened(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Trace the graph on shapes alone."""
        return trace_model(model, inputs)

    @property
    def runs_models(self) -> bool:
        """Whether onnxruntime is installed; without it models are only counted."""
        return is_installed()

    def run(self, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> AbstractContextManager[Run]:
        """Return the context of a `Run` of onnxruntime's; the first call is the making of the session, and one pass."""
        device = self.resolve_device(model, options.device)
        return prepare_run(model, inputs, self.mode(options), device, options.num_threads)

    def time_nodes(
        self, model: Any, inputs: ModelInputs, device: str, passes: int, export: str | PathLike[str] | None = None
    ) -> RanGraph:
        """Return the nodes that onnxruntime ran; ``export`` gets its profiler's own file."""
        return time_nodes(model, inputs, self.execution_modes[0], device, passes, export)

    def read_recording(
        self, profile: ProfileFile, model: Any, inputs: ModelInputs | None, trace: ModelTrace, skip: int = 0
    ) -> Recording:
        """Return the passes in a profile of onnxruntime's, with the layer that each node worked for."""
        from .joining.recording import read_recording

        return read_recording(profile, model, inputs, skip)

    def profile_script(self) -> str:
        """Raise `NotOfferedError`: onnxruntime writes profiles itself."""
        raise NotOfferedError(
            "onnxruntime needs no script: set enable_profiling = True of its SessionOptions, run the session, and call "
            "session.end_profiling(), which returns the name of the file"
        )

    def measure_memory(self, model: Any, inputs: ModelInputs, device: DeviceLike = None) -> int:
        """Return the most bytes that the arena of onnxruntime had given out after an operator, and the inputs."""
        resolved = self.resolve_device(model, device)
        return profiled.measure_memory(model, inputs, self.execution_modes[0], resolved)

    def zero_weights(self, model: Any) -> tuple[int, int]:
        """Return how many elements of the floating-point parameters are zero, and how many there are in all."""
        return zero_weights(model)

    def fingerprint(self, model: Any, values: bool = True) -> object:
        """Return a digest of the graph and its constants: a ``ModelProto`` may be changed in place.

        Of files that hold its weights it has their sizes, times of modification and inodes.
        """
        return fingerprint(model, values), read_stamps(model), list_contents(COSTS.list_added())

    def environment(self) -> Mapping[str, str]:
        """Return the versions of onnx and, if it is installed, onnxruntime, and the devices of onnxruntime."""
        versions = {"onnx": onnx.__version__}
        if is_installed():
            versions.update(onnxruntime=onnxruntime().__version__, providers=", ".join(devices.providers_here()))
        return versions
