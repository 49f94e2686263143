"""MFU and HFU of the steps of a training loop that were measured, with accumulated gradients and ranks in them."""

from __future__ import annotations

from typing import Any, ClassVar

from profilerkit import Measurement, Noted, ProfilerFunction, Unavailable
from profilerkit.backend import Backend, RunOptions
from profilerkit.devices import DeviceInfoLike
from profilerkit.piping.function import Keys
from profilerkit.times.steps import WatchedSteps
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

from .kinds import Share
from .utilization import Attention, choose_device, compute_share, find_dtype

__all__ = ["ComputeWatchedUtilization", "StepHfu", "StepMfu"]


class StepMfu(Share):
    """Share of the dense peak that the products of a watched step reach, without recomputation.

    >>> import torch
    >>> from profilerkit import DeviceInfo
    >>> from profilerkit.devices import Figure
    >>> from profilerkit_torch import watch
    >>> toy = DeviceInfo("toy", dense_peaks={"float32": Figure(1e15, "an example")})
    >>> model = torch.nn.Linear(8, 2)
    >>> watched = watch(model, at_step=None)
    >>> watched.start()
    >>> for _ in range(2):  # accumulated gradients
    ...     model(torch.ones(4, 8)).sum().backward()
    >>> watched.stop()
    >>> report = watched.report(metrics=["step_mfu"], peaks_of=toy)
    >>> 0 < report["step_mfu"].median < 1
    True
    """

    NAME: str = "step_mfu"
    FRIENDLY_NAME: str = "Step MFU"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    FORMULA: str = (
        "calls of the model in the step * sum over dtypes of 2 * macs / dense peak of forward and gradients, divided "
        "by the seconds of the step and by the ranks that share the work of a call"
    )
    OMISSIONS: str = "element-wise operations; what activation checkpoints compute again; the optimizer"
    SOURCE: str = "model FLOPs utilization: Chowdhery and others, PaLM, 2022, appendix B"


class StepHfu(Share):
    """Share of the dense peak that the products of a watched step reach, with recomputation.

    >>> import torch
    >>> from profilerkit import DeviceInfo
    >>> from profilerkit.devices import Figure
    >>> from profilerkit_torch import watch
    >>> toy = DeviceInfo("toy", dense_peaks={"float32": Figure(1e15, "an example")})
    >>> model = torch.nn.Linear(8, 2)
    >>> watched = watch(model, at_step=None)
    >>> watched.start()
    >>> model(torch.ones(4, 8)).sum().backward()
    >>> watched.stop()
    >>> report = watched.report(metrics=["step_hfu"], peaks_of=toy)
    >>> 0 < report["step_hfu"].median < 1
    True
    """

    NAME: str = "step_hfu"
    FRIENDLY_NAME: str = "Step HFU"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    FORMULA: str = "as step_mfu, with what activation checkpoints compute again"
    OMISSIONS: str = "element-wise operations; what fused attention computes again inside its kernel; the optimizer"
    SOURCE: str = "hardware FLOPs utilization: Korthikanti and others, Reducing Activation Recomputation, 2022"


class ComputeWatchedUtilization(ProfilerFunction):
    """Computes MFU and HFU of each watched step. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (StepMfu, StepHfu)
    ON_DEMAND: ClassVar[bool] = True

    def __call__(
        self,
        model: Any,
        backend: Backend,
        training_trace: ModelTrace,
        run_options: RunOptions,
        watched: WatchedSteps | None = None,
        peaks_of: DeviceInfoLike | None = None,
        dtype: str | None = None,
        attention: Attention = "full",
    ) -> dict[str, Any]:
        """Return both shares as measurements with a sample for each step.

        Every call of the model in a step counts as the last one, whose inputs the trace is of. Each rank watches its
        own share of the work. ``peaks_of``, ``dtype`` and ``attention`` are those of `ComputeMfu`.
        """
        reason = _explain_absence(watched)
        if reason or watched is None:
            return {StepMfu.NAME: Unavailable(reason), StepHfu.NAME: Unavailable(reason)}
        steps = [step for step in watched.steps.values() if step.calls and step.backward is not None]
        time = Measurement(tuple(step.seconds / (step.calls or 1) for step in steps))
        where, dtype = choose_device(model, backend, run_options, peaks_of), find_dtype(run_options, dtype)
        note = f"{_describe_calls([step.calls or 0 for step in steps])} in a step"
        return {
            name: _add_note(compute_share(training_trace, time, where, dtype, attention, recomputed=recomputed), note)
            for name, recomputed in ((StepMfu.NAME, False), (StepHfu.NAME, True))
        }


def _explain_absence(watched: WatchedSteps | None) -> str:
    """Return why there is no share; empty if there is one."""
    if watched is None:
        return "no training loop was watched; see Profiler.watch"
    if not watched.steps:
        return watched.missed or "no step was measured: call start() and stop()"
    if not any(step.calls for step in watched.steps.values()):
        return watched.reasons.get("forward", "the model was not called in the steps that were measured")
    if not any(step.calls and step.backward is not None for step in watched.steps.values()):
        return watched.reasons.get("backward", "no backward pass came through the model in the measured steps")
    return ""


def _describe_calls(numbers: list[int]) -> str:
    few, many = min(numbers), max(numbers)
    return f"{few} call{'s' if many > 1 else ''} of the model" if few == many else f"{few} to {many} calls of the model"


def _add_note(share: Any, note: str) -> Any:
    return Noted(share.value, f"{share.note}; {note}") if isinstance(share, Noted) else share
