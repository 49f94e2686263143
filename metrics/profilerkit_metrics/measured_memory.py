"""The most memory a forward pass needs at once, as the device's allocator saw it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from profilerkit import ProfilerFunction
from profilerkit.arguments.checks import FLAG, Check
from profilerkit.backend import AS_IT_IS, Backend, DeviceLike, RunOptions
from profilerkit.inputs import ModelInputs
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import qualify
from profilerkit.protocols import MeasuresMemory, require_capability
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.observed_runs import Witnessed
from profilerkit.trace.records import ModelTrace

from .execution_time import note_left_out
from .kinds import Bytes

__all__ = ["ComputeMeasuredMemory", "MeasuredMemory"]


class MeasuredMemory(Bytes):
    """Peak bytes allocated by the device's allocator in one forward pass without gradients.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["measured_memory"])
    >>> report.status("measured_memory").completeness.value
    'complete'
    """

    NAME: str = "measured_memory"
    DERIVED_FROM: TracePart | None = TracePart.WEIGHTS
    FORMULA: str = "peak bytes allocated by the device's allocator in one pass + bytes of the weights"
    OMISSIONS: str = "the reserve of the allocator; the memory of other processes"
    SOURCE: str = "the allocator's own statistics"


class ComputeMeasuredMemory(ProfilerFunction):
    """Measures the memory of a forward pass on its device. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (MeasuredMemory,)
    CHECKS: ClassVar[Mapping[str, Check]] = {"include_weights": FLAG}
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        trace: ModelTrace,
        device: DeviceLike = None,
        include_weights: bool = True,
        run_options: RunOptions = AS_IT_IS,
    ) -> Any:
        """Return the peak in bytes, with the prediction beside it; unavailable if the backend cannot tell.

        Args:
            model: The model; it runs in inference mode.
            backend: The model's backend.
            inputs: The inputs of the model's call; they count into the peak.
            trace: Where the weights' bytes, and the prediction, are taken from.
            device: The device that runs the model. Default: the current device of the model.
            include_weights: Whether the weights count into the peak.
            run_options: That of ``layer_times``.
        """
        peak = require_capability(backend, MeasuresMemory).measure_memory(model, ModelInputs.of(inputs), device)
        missing: list[str] = []
        measured, prediction = int(peak), ""
        if trace.failure is None:
            measured += trace.memory.weight_bytes if include_weights else 0
            predicted = trace.memory.peak_bytes(include_weights)
            prediction = f"memory_footprint predicts {predicted:,} B, {100 * predicted / max(measured, 1):.0f} % of it"
        elif include_weights:
            missing.append("the weights, for the trace failed")
        qualified = qualify(measured, missing, [prediction, note_left_out(run_options)])
        return Witnessed(qualified, getattr(peak, "runs", ()))
