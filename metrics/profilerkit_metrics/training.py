"""What one training step costs: forward and backward, counted rather than guessed as three forward passes."""

from __future__ import annotations

from typing import Any

from profilerkit import (
    Comparative,
    Failure,
    Metric,
    Noted,
    NotOfferedError,
    Partial,
    ProfilerFunction,
    Scale,
    Unavailable,
)
from profilerkit.backend import Backend
from profilerkit.data import ModelInputs
from profilerkit.trace import ModelTrace

__all__ = ["ComputeTraining", "TrainingFlops", "TrainingMacs", "TrainingMemory"]


class TrainingMacs(Metric):
    """Multiply-accumulates of one training step: the forward pass and the gradients of the trainable weights."""

    NAME = "training_macs"
    UNIT = "MACs"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL

    def friendly_name(self) -> str:
        """Return the field's term."""
        return "Training MACs"


class TrainingFlops(Metric):
    """All floating-point operations of one training step, two for each multiply-accumulate."""

    NAME = "training_flops"
    UNIT = "FLOPs"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL

    def friendly_name(self) -> str:
        """Return the field's term."""
        return "Training FLOPs"


class TrainingMemory(Metric):
    """Peak bytes alive at once in one training step: weights, activations, gradients and the optimizer's state."""

    NAME = "training_memory"
    UNIT = "B"
    SCALE = Scale.IEC
    COMPARATIVE = Comparative.RECIPROCAL


class ComputeTraining(ProfilerFunction):
    """Counts one training step: the forward pass in training mode, and the gradients of the sum of its outputs.

    The loss and the optimizer's update are not part of it: they are the user's, and small beside the rest. Computed
    where it is asked for by name, since it takes a trace of its own.
    """

    ON_DEMAND = True
    ONLY_THROUGH_BACKEND = True

    def get_bounded_status_keys(self) -> tuple[type[Metric], ...]:
        """Return `TrainingMacs`, `TrainingFlops` and `TrainingMemory`."""
        return TrainingMacs, TrainingFlops, TrainingMemory

    def __call__(self, model: Any, backend: Backend, inputs: Any) -> dict[str, Any]:
        """Return the counts, lower bounds where the trace misses something; unavailable where the backend cannot."""
        try:
            trace = backend.trace_training(model, ModelInputs.of(inputs))
        except NotOfferedError as error:
            return dict.fromkeys((TrainingMacs.NAME, TrainingFlops.NAME, TrainingMemory.NAME), Unavailable(str(error)))
        if trace.failure is not None:
            return dict.fromkeys((TrainingMacs.NAME, TrainingFlops.NAME, TrainingMemory.NAME), Failure(trace.failure))
        counts = {TrainingMacs.NAME: trace.macs, TrainingFlops.NAME: trace.flops}
        return {
            **{name: Partial(count, trace.missing) if trace.uncounted else count for name, count in counts.items()},
            TrainingMemory.NAME: _memory(trace, backend.optimizer_state(model)),
        }


def _memory(trace: ModelTrace, state: int | str) -> Any:
    """Return the peak with the optimizer's state, or a lower bound where what that or a tensor takes is not known."""
    peak = trace.memory.peak_bytes() + (state if isinstance(state, int) else 0)
    missing = (*trace.memory.missing, *((state,) if isinstance(state, str) else ()))
    value = Partial(peak, missing) if missing else peak
    return Noted(value, trace.memory.note) if trace.memory.note else value
