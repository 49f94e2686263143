"""MFU and HFU of the steps of a training loop that were measured, with accumulated gradients and ranks in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from profilerkit import Measurement, Noted, ProfilerFunction, Unavailable
from profilerkit.backend import Backend, RunOptions
from profilerkit.count_text import format_count
from profilerkit.devices import DeviceInfoLike
from profilerkit.piping.function import Keys
from profilerkit.times.steps import WatchedSteps
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

from .kinds import Share
from .utilization import Attention, Peak

__all__ = ["ComputeWatchedUtilization", "StepHfu", "StepMfu"]


class StepMfu(Share):
    """Share of the dense peak that the products of a watched step reach, without recomputation.

    >>> import torch
    >>> from profilerkit_torch import watch
    >>> model = torch.nn.Linear(8, 2)
    >>> watched = watch(model, at_step=None)
    >>> watched.start()
    >>> for _ in range(2):  # accumulated gradients
    ...     model(torch.ones(4, 8)).sum().backward()
    >>> watched.stop()
    >>> report = watched.report(metrics=["step_mfu"], peaks_of="h100")
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
    >>> from profilerkit_torch import watch
    >>> model = torch.nn.Linear(8, 2)
    >>> watched = watch(model, at_step=None)
    >>> watched.start()
    >>> model(torch.ones(4, 8)).sum().backward()
    >>> watched.stop()
    >>> report = watched.report(metrics=["step_hfu"], peaks_of="h100")
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
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

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

        The trace is of the last call in the steps, and all calls count like the last one. Each rank watches its own
        share of the work. For ``peaks_of``, ``dtype`` and ``attention`` see `ComputeMfu`.
        """
        if watched is None:
            return _make_absent("no training loop was watched; see Profiler.watch")
        # The steps that can be compared with a trace of a training step: the model was called forward and backward.
        steps = [
            (step.seconds, step.calls) for step in watched.steps.values() if step.calls and step.backward is not None
        ]
        if not steps:
            return _make_absent(_explain_absence(watched))
        # The trace is of one call: so is the time that it is compared with.
        time = Measurement(tuple(seconds / calls for seconds, calls in steps))
        peak = Peak.choose(model, backend, run_options, peaks_of, dtype)
        note = f"{_describe_calls([calls for _, calls in steps])} in a step"
        mfu = peak.compute_share(training_trace, time, attention, recomputed=False)
        hfu = peak.compute_share(training_trace, time, attention)
        return {StepMfu.NAME: _add_note(mfu, note), StepHfu.NAME: _add_note(hfu, note)}


def _make_absent(reason: str) -> dict[str, Unavailable]:
    return {StepMfu.NAME: Unavailable(reason), StepHfu.NAME: Unavailable(reason)}


def _explain_absence(watched: WatchedSteps) -> str:
    """Return why no step can be compared with a trace."""
    if not watched.steps:
        return watched.without_calls
    if not any(step.calls for step in watched.steps.values()):
        return watched.reasons.get("forward", "the model was not called in the steps that were measured")
    return watched.reasons.get("backward", "no backward pass came through the model in the measured steps")


def _describe_calls(numbers: Sequence[int]) -> str:
    few, many = min(numbers), max(numbers)
    if few != many:
        return f"{few} to {many} calls of the model"
    return f"{format_count(few, 'call')} of the model"


def _add_note(share: Noted | Unavailable, note: str) -> Noted | Unavailable:
    return Noted(share.value, f"{share.note}; {note}") if isinstance(share, Noted) else share
