"""The JAX backend: `Backend` for functions with their parameters, modules of Flax and Equinox, and Keras models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import jax

from profilerkit import Backend, ModelInputs, ModelTrace, NotOfferedError, Run
from profilerkit.backend import AS_IT_IS, DeviceLike, RunOptions
from profilerkit.backend_kit.keras_calls import read_declared_call
from profilerkit.backend_kit.keras_kinds import is_keras
from profilerkit.backend_kit.keras_optimizers import count_state_bytes
from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.backend_kit.settings import list_changes
from profilerkit.declared_inputs import make_inputs
from profilerkit.devices.info import DeviceInfo
from profilerkit.process.contents import list_contents
from profilerkit.protocols import (
    DeclaresInputs,
    HoldsOptimizer,
    LimitsMetrics,
    NamesDevices,
    NoticesTraining,
    ReadsOptimizers,
    ReadsWeights,
    TakesCosts,
    Trains,
)
from profilerkit.trace.records import WeightRecord

from . import data
from .compat import find_versions
from .costs import register_op_cost
from .costs.registry import COSTS
from .model import weights as model_weights
from .model.jax_model import JaxModel
from .model.recognition import is_model
from .model.samples import count_samples, note_assumed_batch
from .model.structure import read_structure
from .model.subjects import find_subject
from .running import devices
from .running.runs import prepare_run
from .running.zeros import zero_weights
from .trace.tracing import trace_model, trace_step
from .untouched.preservation import in_inference_mode, preserve
from .untouched.settings import SETTINGS

if TYPE_CHECKING:
    from profilerkit_predict.joining.reading import ProfileFile
    from profilerkit_predict.joining.records import Recording
    from profilerkit_predict.meshes.layout import RankModel
    from profilerkit_predict.meshes.records import RankTrace

__all__ = ["JaxBackend"]

T = TypeVar("T")

_FUSED = (
    "XLA fuses operators, across layers too, so that none runs by itself; record a profile with jax.profiler.trace and "
    "give it to profilerkit join, which has the time of each instruction that XLA made, and its layers"
)


class JaxBackend(
    Backend,
    DeclaresInputs,
    HoldsOptimizer,
    LimitsMetrics,
    NamesDevices,
    NoticesTraining,
    ReadsOptimizers,
    ReadsWeights,
    TakesCosts,
    Trains,
):
    """Profiles functions, jitted ones, `JaxModel`, modules of Flax's nnx and linen and of Equinox, and Keras on JAX.

    Models are counted along their jaxpr. They run as one function that ``jax.jit`` compiles. Single layers and
    operators are not timed, because XLA fuses operators across layers: `join` a profile of JAX instead.
    """

    name: ClassVar[str] = "jax"
    execution_modes: ClassVar[tuple[str, ...]] = ("jit",)
    offered_options: ClassVar[tuple[str, ...]] = ("training",)
    shares_costs: ClassVar[bool] = True

    def accepts(self, model: Any) -> bool:
        """Return whether the model is a function, a module of Flax or Equinox, Keras on JAX, or a `JaxModel`."""
        return is_model(model)

    def model_name(self, model: Any) -> str:
        """Return the name of the function, of a functional or sequential Keras model, or of another module's class."""
        return find_subject(model).name

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Return the short name of a device of JAX: "cpu", "gpu:0"; for None, the device of the weights."""
        return devices.resolve_device(find_subject(model), device)

    def device_info(self, device: DeviceLike = None) -> DeviceInfo:
        """Return the known facts of a device of this process; of JAX's default device for None."""
        return devices.device_info(devices.resolve_device(None, device))

    def example_inputs(self, model: Any, batch_size: int | None = None) -> ModelInputs | None:
        """Return inputs as a Keras model declares them; None if a model declares none."""
        declared = read_declared_call(model) if is_keras(model) else None
        return None if declared is None else make_inputs(declared, batch_size, self.random_tensor)

    is_tensor = staticmethod(data.is_tensor)
    as_tensor = staticmethod(data.as_tensor)
    random_tensor = staticmethod(data.random_tensor)
    with_batch_size = staticmethod(data.with_batch_size)

    def count_samples(self, model: Any, inputs: ModelInputs, trace: ModelTrace | None = None) -> int | None:
        """Return 1 for inputs of a convolution or a linear layer without a batch dimension."""
        return count_samples(
            find_subject(model), inputs.map(data.as_tensor), lambda: trace or self.trace(model, inputs)
        )

    def trace(self, model: Any, inputs: ModelInputs | None) -> ModelTrace:
        """Trace one forward pass on shapes alone, in inference mode if the model has modes."""
        if inputs is None:
            return trace_model(model, None)
        arrays = inputs.map(data.as_tensor)
        return note_assumed_batch(trace_model(model, arrays), arrays)

    def trace_training(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        """Trace one training step: the forward pass, and the gradients of the sum of the outputs."""
        return trace_step(model, inputs.map(data.as_tensor))

    def read_recording(
        self, profile: ProfileFile, model: Any, inputs: ModelInputs | None, trace: ModelTrace, skip: int = 0
    ) -> Recording:
        """Return the passes in a profile of JAX's, with the layer that each instruction worked for."""
        from .joining.recording import read_recording

        return read_recording(profile, model, inputs, trace, skip)

    def list_rank_variables(self, ranks: int) -> Mapping[str, str]:
        """Return the environment variables by which JAX has one device for each rank, all on this machine's CPU."""
        return devices.list_host_devices(ranks)

    def trace_rank(self, model: RankModel, inputs: ModelInputs) -> RankTrace:
        """Return a training step of one rank of a mesh, from the program that XLA makes for each rank."""
        from .meshes.ranks import trace_rank

        return trace_rank(model, inputs.map(data.as_tensor))

    def profile_script(self) -> str:
        """Raise `NotOfferedError`: JAX writes profiles itself."""
        raise NotOfferedError(
            "JAX needs no script: call the jitted model a few times inside of jax.profiler.trace(folder), each time "
            "with block_until_ready(), and join the folder"
        )

    @contextmanager
    def run(self, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Iterator[Run]:
        """Yield a `Run` of the compiled model; the first call is tracing, compilation and one pass."""
        self.mode(options)
        device = None if options.device is None else self.resolve_device(model, options.device)
        with prepare_run(find_subject(model), inputs.map(data.as_tensor), device, options.training) as run:
            yield run

    def evaluate(self, model: Any, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Return ``call()``, with the model in inference mode and the device as JAX's usual one."""
        one_device = devices.devices_here().get(self.resolve_device(model, device))
        with in_inference_mode(model), jax.default_device(one_device):
            return call()

    def preserve(self, model: Any) -> AbstractContextManager[None]:
        """Return a context that puts the modes and variables of a module of nnx back."""
        return preserve(model)

    def zero_weights(self, model: Any) -> tuple[int, int]:
        """Return how many elements of the float parameters are zero, and how many there are."""
        return zero_weights(find_subject(model))

    def fingerprint(self, model: Any, values: bool = True) -> object:
        """Return a value that changes with a model's arrays, modules and functions, and with registered cost formulas.

        See `model.structure`. No value of an array of JAX is read for it.
        """
        settings = [*list_changes(SETTINGS, counts=True), *list_changes(SETTINGS, counts=False)]
        return read_structure(model, values), settings, list_contents(COSTS.list_added())

    def optimizer_bytes(self, optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
        """Return the bytes that an optimizer of optax stores for weights, or why that is not known."""
        return model_weights.optimizer_bytes(optimizer, weights)

    def optimizer_state(self, model: Any) -> int | str:
        """Return the bytes of a compiled Keras model's optimizer state; 0 for models without an optimizer."""
        return count_state_bytes(model.function if isinstance(model, JaxModel) else model)

    def inapplicable(self, model: Any) -> Mapping[str, str]:
        """Say that no layer and no operator runs by itself, and name the replacement."""
        return {"layer_times": _FUSED, "operator_table": _FUSED}

    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        """Take cost formulas of plugins by primitive, ``"my_kernel"``; all of them or none."""
        COSTS.register_whole(costs, register_op_cost)

    @property
    def non_default_settings(self) -> tuple[str, ...]:
        """The settings that change measured values, if they differ from their default."""
        return tuple(list_changes(SETTINGS, counts=False))

    def environment(self) -> Mapping[str, str]:
        """Return the versions of jax, Flax, Equinox and Keras, and the devices of this process."""
        return {**find_versions(), "devices": ", ".join(devices.devices_here())}
