"""The PyTorch backend: `Backend` for ``torch.nn.Module``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, ClassVar, TypeVar

import torch

from profilerkit import Backend, DataLoader, ForwardPass, InputError, ModelInputs, ModelTrace, Run, TensorSpec
from profilerkit.backend import AS_IT_IS, DeviceLike, RunOptions
from profilerkit.backend_kit.keras_calls import read_declared_call
from profilerkit.backend_kit.keras_kinds import is_keras, is_shipped
from profilerkit.backend_kit.keras_optimizers import count_state_bytes
from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.backend_kit.settings import list_changes
from profilerkit.declared_inputs import make_inputs
from profilerkit.devices.info import DeviceInfo
from profilerkit.process.contents import list_contents
from profilerkit.protocols import (
    CastsModels,
    CountsNonzero,
    DeclaresInputs,
    HoldsOptimizer,
    KeepsApart,
    MeasuresCeilings,
    MeasuresMemory,
    NamesDevices,
    NoticesTraining,
    OpensModels,
    ReadsOptimizers,
    ReadsWeights,
    RunsInRanks,
    TakesCosts,
    TimesLayers,
    TimesOperators,
    Trains,
    Watches,
    WatchesLayers,
)
from profilerkit.times.ceiling_work import CeilingWork
from profilerkit.times.layer_times import LayerTime, LayerTimer
from profilerkit.times.operator_times import OperatorTimes
from profilerkit.times.steps import StepRecorder
from profilerkit.trace.records import WeightRecord

from . import data
from .compat.names import VERSION
from .costs.registry import COSTS, register_module_cost, register_op_cost
from .data import TorchDataLoader, TorchForwardPass
from .layer_timing.layer_passes import measure_layer_times
from .layer_timing.step_recorder import TorchStepRecorder
from .layer_timing.timer import layer_times
from .model import programs
from .model.inventory import Inventory
from .model.modules import set_inference_flags
from .model.rank_shares import rank_share
from .model.scripts import type_name
from .model.structure import read_structure
from .model.wrapped import find_inner_model
from .operator_timing.passes import measure_operator_times
from .predictions import Predictions
from .running import ceilings, devices, zeros
from .running.measured_memory import measure_peak
from .running.nonzero_trace import trace_nonzero
from .running.runs import prepare_run
from .trace.samples import count_samples
from .trace.tracing import trace_model
from .training.optimizers import optimizer_bytes
from .training.step import trace_training
from .untouched.caller_context import apart, as_caller, require_no_tracing
from .untouched.preservation import preserve
from .untouched.settings import SETTINGS, conditions

__all__ = ["TorchBackend"]

T = TypeVar("T")


class TorchBackend(
    Predictions,
    Backend,
    CastsModels,
    CountsNonzero,
    DeclaresInputs,
    HoldsOptimizer,
    KeepsApart,
    MeasuresCeilings,
    MeasuresMemory,
    NamesDevices,
    NoticesTraining,
    OpensModels,
    ReadsOptimizers,
    ReadsWeights,
    RunsInRanks,
    TakesCosts,
    TimesLayers,
    TimesOperators,
    Trains,
    Watches,
    WatchesLayers,
):
    """Profiles any ``torch.nn.Module``."""

    name: ClassVar[str] = "torch"
    data_loader: ClassVar[type[DataLoader]] = TorchDataLoader
    forward_pass: ClassVar[type[ForwardPass]] = TorchForwardPass
    offered_options: ClassVar[tuple[str, ...]] = ("training", "compile", "autocast", "num_threads")
    shares_costs: ClassVar[bool] = True

    # The model --------------------------------------------------------------------------------------------------------

    def open_model(self, model: Any) -> Any:
        """Return the module of an exported program, with its layers; any other model as it is."""
        if not programs.is_program(model):
            return model
        with apart():
            return programs.make_layered(model)

    def cast(self, model: Any, dtype: str) -> Any:
        """Return the module with its floating-point parameters and buffers in a dtype, which changes the module.

        A tensor of floats is copied.
        """
        kind = getattr(torch, dtype, None)
        if not isinstance(kind, torch.dtype) or not (kind.is_floating_point or kind.is_complex):
            raise InputError(
                f"dtype={dtype!r} is no floating-point dtype of torch; give 'float32', 'bfloat16', 'float16'"
            )
        return model.to(kind)

    def accepts(self, model: Any) -> bool:
        """Return whether the model is a ``torch.nn.Module``, or a program of ``torch.export``."""
        return isinstance(model, torch.nn.Module) or programs.is_program(model)

    def model_name(self, model: torch.nn.Module) -> str:
        """Return the name of a functional or sequential Keras model, else the name of the class inside wrappers."""
        return str(model.name) if is_shipped(model) else type_name(find_inner_model(model))

    def fingerprint(self, model: torch.nn.Module, values: bool = True) -> object:
        """Return a value that changes with the modules, their attributes and hooks, and with any of their tensors.

        See `model.structure`. Tensors count how often they are written to, so that no values are read.
        """
        return (
            read_structure(model, flags=values),
            list(conditions(model)),
            self.non_default_settings,
            list_contents(COSTS.list_added()),
        )

    def zero_weights(self, model: torch.nn.Module) -> tuple[int, int]:
        """Return the zeros among the elements of the floating-point parameters, and their number; masks are applied."""
        return zeros.zero_weights(model)

    def ranks(self, model: torch.nn.Module) -> int:
        """Return the number of processes of a model that is spread by DDP or FSDP."""
        share = rank_share(Inventory(model))
        return 1 if share is None else share.ranks

    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        """Register formulas for operators, overloads or their names and for classes of modules; all of them or none."""
        COSTS.register_whole(costs, _register)

    # Devices and settings ---------------------------------------------------------------------------------------------

    def resolve_device(self, model: torch.nn.Module, device: DeviceLike) -> str:
        """Return torch's string for a device that exists here."""
        return str(devices.resolve_device(model, device))

    def device_info(self, device: DeviceLike = None) -> DeviceInfo:
        """Return the known facts of a device of this machine; of the CPU for None."""
        return devices.device_info(devices.resolve_device(torch.nn.Module(), device))

    def use_threads(self, num_threads: int | None) -> AbstractContextManager[int]:
        """Return a context with so many threads of torch."""
        return ceilings.run_bare_operators(num_threads)

    def ceiling_work(self, num_threads: int | None) -> AbstractContextManager[Iterable[CeilingWork]]:
        """Return a context with torch's fastest products, convolutions and traffic on so many threads."""
        return ceilings.prepare_work(num_threads)

    @property
    def non_default_settings(self) -> tuple[str, ...]:
        """The settings that change measured values, if they differ from their default."""
        return tuple(list_changes(SETTINGS, counts=False))

    def environment(self) -> Mapping[str, str]:
        """Return torch's version and threads, and its accelerators with the version of CUDA or ROCm."""
        return {
            "torch": VERSION,
            "intra_op_threads": str(torch.get_num_threads()),
            "inter_op_threads": str(torch.get_num_interop_threads()),
            **devices.describe_accelerators(),
        }

    # Inputs -----------------------------------------------------------------------------------------------------------

    def is_tensor(self, value: Any) -> bool:
        """Return whether a value is a torch tensor."""
        return isinstance(value, torch.Tensor)

    def as_tensor(self, value: Any) -> Any:
        """Return a tensor for a numpy array or a tensor of TensorFlow."""
        return data.as_tensor(value)

    def usual_dtype(self, model: torch.nn.Module) -> str:
        """Return the dtype of the weights if all have the same, which layers need for inputs; else float32."""
        return data.usual_dtype(model)

    def random_tensor(self, spec: TensorSpec, batch_size: int) -> torch.Tensor:
        """Return a tensor for a spec: normal for floats, zeros for integers."""
        return data.random_tensor(spec, batch_size)

    def with_batch_size(self, tensor: torch.Tensor, batch_size: int) -> torch.Tensor:
        """Return the tensor cut or repeated to a batch size."""
        return data.with_batch_size(tensor, batch_size)

    def count_samples(self, model: torch.nn.Module, inputs: ModelInputs, trace: ModelTrace | None = None) -> int | None:
        """Return the samples that the first convolution, recurrent or attention layer takes, if there is one."""
        return count_samples(model, inputs.map(data.as_tensor), trace)

    def example_inputs(self, model: torch.nn.Module, batch_size: int | None = None) -> ModelInputs | None:
        """Return inputs as an exported program, or a Keras model on torch, declares them."""
        declared = programs.read_declared_inputs(model)
        if declared is None and is_keras(model):
            declared = read_declared_call(model)
        return None if declared is None else make_inputs(declared, batch_size, self.random_tensor)

    # Static counts ----------------------------------------------------------------------------------------------------

    def trace(self, model: torch.nn.Module, inputs: ModelInputs | None) -> ModelTrace:
        """Trace the model on shapes alone, or in a real run if that fails."""
        return trace_model(model, None if inputs is None else inputs.map(data.as_tensor))

    def trace_training(self, model: torch.nn.Module, inputs: ModelInputs) -> ModelTrace:
        """Trace one training step on shapes alone: forward in training mode, and the gradients of trainable weights."""
        return trace_training(model, inputs.map(data.as_tensor))

    def trace_nonzero(self, model: torch.nn.Module, inputs: ModelInputs) -> ModelTrace:
        """Trace a real run; the work of an operator counts in proportion to the nonzero elements of its weights."""
        return trace_nonzero(model, inputs.map(data.as_tensor))

    def optimizer_bytes(self, optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
        """Return the bytes of a ``torch.optim.Optimizer``'s state after its first step, and the bytes of an update."""
        with apart():
            return optimizer_bytes(optimizer, weights)

    def optimizer_state(self, model: torch.nn.Module) -> int | str:
        """Return the bytes of a compiled Keras model's optimizer state; 0 for models without an optimizer."""
        with apart():
            return count_state_bytes(model)

    # Runs -------------------------------------------------------------------------------------------------------------

    def run(
        self, model: torch.nn.Module, inputs: ModelInputs, options: RunOptions = AS_IT_IS
    ) -> AbstractContextManager[Run]:
        """Return a context that yields a run: a forward pass without gradients, or a training step."""
        self.mode(options)  # raises for options that torch does not have
        return prepare_run(model, inputs.map(data.as_tensor), options)

    def measure_memory(self, model: torch.nn.Module, inputs: ModelInputs, device: DeviceLike = None) -> int:
        """Return the allocator's peak in one forward pass: on the CPU by torch's profiler."""
        return measure_peak(model, inputs.map(data.as_tensor), device)

    def layer_times(
        self,
        model: torch.nn.Module,
        inputs: ModelInputs,
        device: DeviceLike = None,
        passes: int = 10,
        backward: bool = True,
    ) -> Sequence[LayerTime]:
        """Return the time of each layer, forward for inference and backward in training steps."""
        return measure_layer_times(model, inputs.map(data.as_tensor), device, passes, backward)

    def operator_times(
        self,
        model: torch.nn.Module,
        inputs: ModelInputs,
        device: DeviceLike = None,
        passes: int = 10,
        backward: bool = True,
        export: str | PathLike[str] | None = None,
    ) -> OperatorTimes:
        """Return the time of each operator in each layer, by torch's profiler."""
        return measure_operator_times(model, inputs.map(data.as_tensor), device, passes, backward, export)

    def time_layers(self, model: torch.nn.Module) -> LayerTimer:
        """Return a context manager that times the layers while the caller's own code runs them."""
        return layer_times(model)

    def record_steps(self, model: torch.nn.Module, optimizer: Any = None) -> StepRecorder:
        """Return a recorder that measures single steps of a training loop."""
        require_no_tracing()
        return TorchStepRecorder(model, optimizer)

    def evaluate(self, model: torch.nn.Module, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``, made with the model in inference mode, without gradients, on the device."""
        with apart():
            inventory = Inventory(model)
            target = devices.resolve_device(inventory, device)
            devices.require_values(inventory, target)
            whole = preserve(model, tensor_values=True, inventory=inventory)
            with whole, devices.move_model(inventory, target), torch.no_grad():
                set_inference_flags(inventory.modules)
                with as_caller():
                    return call()

    def apart(self) -> AbstractContextManager[None]:
        """Take the caller's dispatch modes away; raise `TracingError` if torch records running code."""
        return apart(functions=False)

    def preserve(self, model: torch.nn.Module) -> AbstractContextManager[None]:
        """Restore the model and the process at the end."""
        return preserve(model)


def _register(op: Any, formula: Callable[..., Any]) -> None:
    (register_module_cost if isinstance(op, type) else register_op_cost)(op, formula)
