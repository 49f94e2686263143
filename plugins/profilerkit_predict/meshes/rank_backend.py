"""The backend of one rank's share of a model: its counts are those of the rank, and nothing of it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from profilerkit import Backend, ModelInputs, ModelTrace, NotOfferedError, TensorSpec
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.errors import InputError, PlacementError, ProfilerKitError
from profilerkit.protocols import LimitsMetrics, ReadsOptimizers, Trains, require_capability
from profilerkit.trace.records import LayerRecord, WeightRecord

from .layout import RankModel
from .process import trace_in_process
from .records import RankTrace

__all__ = ["RankBackend"]

T = TypeVar("T")


@dataclass(frozen=True)
class _TracedStep:
    """The step that was traced last: of which model and inputs, and the trace or the error that came of it."""

    model: RankModel
    inputs: ModelInputs
    outcome: RankTrace | ProfilerKitError


class RankBackend(Backend, LimitsMetrics, ReadsOptimizers, Trains):
    """Counts a `RankModel` by the backend of its framework, in a process of its own."""

    name: ClassVar[str] = "mesh"

    def __init__(self, inner: Backend) -> None:
        self.inner: Backend = inner
        self._last: _TracedStep | None = None

    def trace_step(self, model: RankModel, inputs: ModelInputs) -> RankTrace:
        """Return a training step of the rank, which is traced once; raises what its process does."""
        last = self._last
        if last is None or last.model is not model or last.inputs is not inputs:
            last = self._last = _TracedStep(model, inputs, self._find_outcome(model, inputs))
        if isinstance(last.outcome, ProfilerKitError):
            raise last.outcome
        return last.outcome

    def _find_outcome(self, model: RankModel, inputs: ModelInputs) -> RankTrace | ProfilerKitError:
        """Trace a step; return its error where it fails, as it would fail in the same way once more."""
        try:
            return trace_in_process(model, inputs, self.inner.name)
        except InputError as error:  # the function is not found, or does not fit the mesh
            return PlacementError(str(error))
        except ProfilerKitError as error:
            return error

    @property
    def step(self) -> RankTrace:
        """The step that was traced last."""
        if self._last is None or isinstance(self._last.outcome, ProfilerKitError):
            raise NotOfferedError("no step of a rank was traced")
        return self._last.outcome

    def trace(self, model: RankModel, inputs: ModelInputs | None) -> ModelTrace:
        """Return the forward pass of the step, or all of them."""
        unknown = ModelTrace(
            (LayerRecord("", model.name, 0),), unmade_weights="the weights of a rank, which its step shows"
        )
        if inputs is None:
            return unknown
        try:
            step = self.trace_step(model, inputs).trace
        except PlacementError:
            raise
        except ProfilerKitError as error:
            return replace(unknown, failure=error)
        indices = [index for index, operator in enumerate(step.operators) if operator.phase == "forward"]
        alive = tuple(step.memory.live_bytes[index] for index in indices)
        memory = replace(step.memory, live_bytes=alive, parts={}, left_bytes=None)
        return replace(step, operators=tuple(step.operators[index] for index in indices), memory=memory)

    def trace_training(self, model: RankModel, inputs: ModelInputs) -> ModelTrace:
        """Return the whole step."""
        return self.trace_step(model, inputs).trace

    def inapplicable(self, model: RankModel) -> Mapping[str, str]:
        """Return the metrics of inference, as a rank trains, and the time of a step without its collectives."""
        return {
            "memory_footprint": "a rank of a mesh is traced in a training step: see rank_peak_memory",
            "predicted_training_time": "a rank of a mesh has collectives too: see rank_step_time",
        }

    def optimizer_bytes(self, optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
        """Return what an optimizer of the framework keeps for this rank's share of the weights."""
        return require_capability(self.inner, ReadsOptimizers).optimizer_bytes(optimizer, weights)

    def accepts(self, model: Any) -> bool:
        """Return whether this is one rank's share of a model."""
        return isinstance(model, RankModel)

    def model_name(self, model: RankModel) -> str:
        """Return the name of what is built."""
        return model.name

    def model_type(self, model: RankModel) -> str:
        """Return the class of the model that the rank has a share of, as its step shows it; else what builds it."""
        last = self._last
        if last is None or last.model is not model or isinstance(last.outcome, ProfilerKitError):
            return model.name
        return last.outcome.trace.layers[0].type

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Refuse any device: a rank is traced without one."""
        if device is not None:
            raise NotOfferedError("a rank of a mesh is traced on shapes alone, on no device; leave out device=")
        return "cpu"

    def is_tensor(self, value: Any) -> bool:
        """Return whether a value is a tensor of the framework."""
        return self.inner.is_tensor(value)

    def as_tensor(self, value: Any) -> Any:
        """Return a value that can be converted as a tensor of the framework."""
        return self.inner.as_tensor(value)

    def random_tensor(self, spec: TensorSpec, batch_size: int) -> Any:
        """Return a tensor of the framework."""
        return self.inner.random_tensor(spec, batch_size)

    def with_batch_size(self, tensor: Any, batch_size: int) -> Any:
        """Return a tensor of the framework with another first dimension."""
        return self.inner.with_batch_size(tensor, batch_size)

    def evaluate(self, model: Any, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Refuse: one rank alone gives no results."""
        raise NotOfferedError("one rank of a mesh is traced on shapes alone, and evaluates nothing")

    def preserve(self, model: Any) -> AbstractContextManager[None]:
        """Return a context that does nothing: the model is built in a process of its own."""
        return nullcontext()

    @property
    def non_default_settings(self) -> tuple[str, ...]:
        """Those of the framework's backend."""
        return self.inner.non_default_settings

    def environment(self) -> Mapping[str, str]:
        """Return that of the framework's backend."""
        return self.inner.environment()
