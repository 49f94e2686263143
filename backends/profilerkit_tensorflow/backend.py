"""The TensorFlow backend: `Backend` for Keras models, modules, functions and saved models."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from typing import Any, ClassVar, TypeVar

import tensorflow as tf

from profilerkit import Backend, DataLoader, ForwardPass, ModelInputs, ModelTrace, Run
from profilerkit.backend import AS_IT_IS, DeviceLike, RunOptions
from profilerkit.backend_kit.settings import list_changes
from profilerkit.declared_inputs import make_inputs
from profilerkit.devices.info import DeviceInfo
from profilerkit.process.contents import list_contents
from profilerkit.protocols import (
    DeclaresInputs,
    FitsInputs,
    HoldsOptimizer,
    KeepsApart,
    NamesDevices,
    NoticesTraining,
    OpensModels,
    ReadsWeights,
    TakesCosts,
    TimesLayers,
    TimesOperators,
    Trains,
    Watches,
)
from profilerkit.times.layer_times import LayerTime
from profilerkit.times.operator_times import OperatorTimes
from profilerkit.times.steps import StepRecorder

from . import data
from .compat.saved_models import is_saved_model
from .costs.registry import COSTS, register_layer_cost, register_op_cost
from .data import TFDataLoader, TFForwardPass
from .layer_timing.step_recorder import TFStepRecorder
from .layer_timing.timer import layer_times
from .loaders import open_model
from .model.inputs import fit_inputs, read_declared_inputs
from .model.kinds import is_function, is_layer, type_name
from .model.recognition import claims
from .model.structure import fingerprint, read_structure
from .model.unallocated import optimizer_state_bytes
from .operator_timing.passes import measure_operator_times
from .running import devices
from .running.modes import choose_mode
from .running.runs import prepare_run
from .running.zeros import zero_weights
from .trace.program import Program
from .trace.tracing import trace_model
from .untouched.preservation import preserve, require_plain_context
from .untouched.settings import SETTINGS, conditions

__all__ = ["TFBackend"]

T = TypeVar("T")


class TFBackend(
    Backend,
    DeclaresInputs,
    FitsInputs,
    HoldsOptimizer,
    KeepsApart,
    NamesDevices,
    NoticesTraining,
    OpensModels,
    ReadsWeights,
    TakesCosts,
    TimesLayers,
    TimesOperators,
    Trains,
    Watches,
):
    """Profiles models of Keras 3 and ``tf_keras``, modules (``tf.Module``), functions and saved models."""

    name: ClassVar[str] = "tensorflow"
    data_loader: ClassVar[type[DataLoader]] = TFDataLoader
    forward_pass: ClassVar[type[ForwardPass]] = TFForwardPass
    execution_modes: ClassVar[tuple[str, ...]] = ("graph", "eager", "xla", "predict")
    offered_options: ClassVar[tuple[str, ...]] = ("training", "compile")
    shares_costs: ClassVar[bool] = True

    def __init__(self) -> None:
        #: The programs of traces that are in use: timing need not trace their models again. It is no weak set, as an
        #: interrupt in the callback of a weak reference would be lost.
        self._programs: list[weakref.ref[Program]] = []

    def __reduce__(self) -> tuple[type[TFBackend], tuple[()]]:
        """Pickle it without the programs, which are in use in this process alone."""
        return type(self), ()

    def open_model(self, model: Any, trust: bool = False) -> Any:
        """Return the model at the path of a ``.keras`` or ``.h5`` file, or of the folder of a saved model.

        A file that may run code of its own is only loaded with ``trust``.
        """
        return open_model(model, trust)

    def accepts(self, model: Any) -> bool:
        """Return whether the model is one of TensorFlow, or a callable over its tensors.

        Raises `BackendNotFoundError` for a Keras model on a framework without a backend.
        """
        if any(base.__module__.partition(".")[0] == "torch" for base in type(model).__mro__):
            return False  # a torch module is a callable too
        return claims(model) and (is_layer(model) or is_saved_model(model) or is_function(model))

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return TensorFlow's string for a device that exists here."""
        return devices.resolve_device(model, device)

    def device_info(self, device: DeviceLike = None) -> DeviceInfo:
        """Return the known facts of a device of this machine; of the CPU for None."""
        return devices.device_info(devices.resolve_device(None, device))

    is_tensor = staticmethod(data.is_tensor)
    as_tensor = staticmethod(data.as_tensor)
    random_tensor = staticmethod(data.random_tensor)
    with_batch_size = staticmethod(data.with_batch_size)

    def example_inputs(self, model: Any, batch_size: int | None = None) -> ModelInputs | None:
        """Return inputs as a Keras model, a saved model or a function with a signature declares them."""
        declared = read_declared_inputs(model)
        return None if declared is None else make_inputs(declared, batch_size, self.random_tensor)

    def fit_inputs(self, model: Any, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs with the channels last if a Keras model declares them so."""
        return fit_inputs(model, inputs)

    def model_name(self, model: Any) -> str:
        """Return the name of a functional or sequential Keras model, otherwise the name of the class or function."""
        shipped = type(model).__module__.partition(".")[0] in ("keras", "tf_keras")
        named = getattr(model, "name" if shipped else "__name__", None)
        return str(named) if isinstance(named, str) else type_name(model)

    def optimizer_state(self, model: Any) -> int | str:
        """Return the bytes that a compiled Keras model's optimizer keeps."""
        return optimizer_state_bytes(model)

    def zero_weights(self, model: Any) -> tuple[int, int]:
        """Return the zeros among the elements of the floating-point weights, and their number."""
        return zero_weights(model)

    def trace(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Trace the model as a separate graph, or by an eager run if it cannot be traced."""
        trace = trace_model(model, None if inputs is None else _as_tensors(inputs))
        if trace.program is not None:
            in_use = [program for program in self._programs if program() is not None]
            self._programs = [*in_use, weakref.ref(trace.program)]
        return trace

    def _find_program(self, model: Any, inputs: ModelInputs) -> Program | None:
        """Return a program of the model whose trace is in use: the latest that fits the inputs, if there is one."""
        alive = filter(None, (made() for made in reversed(self._programs)))
        programs = [program for program in alive if program.model is model]
        fitting = (program for program in programs if program.fits(model, inputs))
        return next(fitting, programs[0] if programs else None)

    def trace_training(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        """Trace one training step: forward in training mode, and the gradients of the trainable variables."""
        return trace_model(model, _as_tensors(inputs), training=True)

    def run(self, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> AbstractContextManager[Run]:
        """Return a context that yields a run: a forward pass, or a training step; with ``compile`` in mode "xla"."""
        mode, tensors = self.mode(options), _as_tensors(inputs)
        program = self._find_program(model, tensors)
        return prepare_run(model, tensors, options.device, mode, program, options.training)

    def mode(self, options: RunOptions = AS_IT_IS) -> str:
        """Return the execution mode that the options lead to: with ``compile`` in mode "xla"."""
        return choose_mode(options, super().mode(RunOptions(mode=options.mode)))

    def record_steps(self, model: Any, optimizer: Any = None) -> StepRecorder:
        """Return a recorder that measures single steps of a training loop, each as a whole."""
        return TFStepRecorder(model, optimizer)

    def layer_times(
        self, model: Any, inputs: ModelInputs, device: DeviceLike = None, passes: int = 10, backward: bool = True
    ) -> Sequence[LayerTime]:
        """Return the time of each layer's own work: forward in inference mode, backward in a training step."""
        tensors = _as_tensors(inputs)
        return layer_times(model, tensors, device, passes, backward, self._find_program(model, tensors))

    def operator_times(
        self,
        model: Any,
        inputs: ModelInputs,
        device: DeviceLike = None,
        passes: int = 10,
        backward: bool = True,
        export: str | PathLike[str] | None = None,
    ) -> OperatorTimes:
        """Return the time of each operator in each layer, measured by TensorFlow's profiler."""
        return measure_operator_times(model, _as_tensors(inputs), device, passes, backward, export)

    def evaluate(self, model: Any, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``, made on the device; the model is restored."""
        with preserve(model, variable_values=True), devices.use_device(device):
            return call()

    def preserve(self, model: Any) -> AbstractContextManager[None]:
        """Return a context at whose end the model, with the values of its variables, and the process are restored."""
        return preserve(model, variable_values=True)

    def apart(self) -> AbstractContextManager[None]:
        """Raise `TracingError` while a graph is built or gradients are recorded: nothing can be profiled there."""
        require_plain_context()
        return nullcontext()

    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        """Register formulas for operator types and for classes of layers; all of them or none."""
        COSTS.register_whole(costs, _register)

    def fingerprint(self, model: Any, values: bool = True) -> object:
        """Return a value that changes with the layers and their attributes, and with the variables and their values."""
        added = list_contents(COSTS.list_added())
        return (
            read_structure(model),
            fingerprint(model, values),
            list(conditions(model)),
            self.non_default_settings,
            added,
        )

    @property
    def non_default_settings(self) -> tuple[str, ...]:
        """The settings that change measured values, if they differ from their default."""
        return tuple(list_changes(SETTINGS, counts=False))

    def environment(self) -> Mapping[str, str]:
        """Return TensorFlow's and Keras' versions and threads, and the accelerators it sees.

        0 threads mean as many as there are cores.
        """
        facts = {
            "tensorflow": tf.__version__,
            "keras": _keras_version(),
            "intra_op_threads": str(tf.config.threading.get_intra_op_parallelism_threads()),
            "inter_op_threads": str(tf.config.threading.get_inter_op_parallelism_threads()),
        }
        gpus = tf.config.get_visible_devices("GPU")
        if gpus:
            names = [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]
            facts["accelerators"] = ", ".join(names)
        return facts


def _keras_version() -> str:
    """Return the version of the package that ``tf.keras`` is of; an import of ``tensorflow.keras`` hides its own."""
    keras: Any = sys.modules[tf.keras.Model.__module__.partition(".")[0]]
    return str(getattr(keras, "__version__", None) or keras.version())  # the first of Keras 3 have the function alone


def _as_tensors(inputs: ModelInputs) -> ModelInputs:
    """Return inputs as tensors; a context that forbids profiling raises before any is made in the caller's graph."""
    require_plain_context()
    return inputs.map(data.as_tensor)


def _register(op: Any, formula: Callable[..., Any]) -> None:
    if isinstance(op, type):
        register_layer_cost(op, formula)
    else:
        register_op_cost(op, formula)
