"""The times and the memory of the measured steps of a training loop, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any, ClassVar

from profilerkit import Measurement, Metric, Noted, ProfilerFunction, Scale, Unavailable
from profilerkit.arguments.checks import Check, instance
from profilerkit.count_text import name_several
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import qualify
from profilerkit.piping.quantity import scale_value
from profilerkit.times.steps import WatchedSteps

from .kinds import Seconds
from .layer_times import LayerTimes
from .static import Flops, Macs
from .training import TrainingFlops, TrainingMacs, TrainingMemory, TrainingMemoryParts

__all__ = ["BackwardTime", "ComputeWatchedSteps", "ForwardTime", "OptimizerTime", "OtherTime", "StepMemory", "StepTime"]


class StepTime(Seconds):
    """Seconds of one measured step of a training loop, from its start to its end.

    >>> from profilerkit.times.steps import StepRecord
    >>> ComputeWatchedSteps()(WatchedSteps((0,), {0: StepRecord(0.5)}, loop_steps=1))["step_time"].value.median
    0.5
    """

    NAME: str = "step_time"
    FORMULA: str = "seconds from the start to the end of a step"
    OMISSIONS: str = "steps that were not chosen"
    SOURCE: str = "profilerkit's own definition"


class ForwardTime(Seconds):
    """Seconds of a step that the calls of the model took.

    >>> from profilerkit.times.steps import StepRecord
    >>> steps = WatchedSteps((0,), {0: StepRecord(0.5, forward=0.25)}, loop_steps=1)
    >>> ComputeWatchedSteps()(steps)["forward_time"].median
    0.25
    """

    NAME: str = "forward_time"
    FORMULA: str = "sum over the calls of the model in a step of their seconds"
    OMISSIONS: str = "what the loop does outside of the model"
    SOURCE: str = "profilerkit's own definition"


class BackwardTime(Seconds):
    """Seconds of a step that the gradients of the model's layers took.

    >>> from profilerkit.times.steps import StepRecord
    >>> steps = WatchedSteps((0,), {0: StepRecord(0.5, backward=0.125)}, loop_steps=1)
    >>> ComputeWatchedSteps()(steps)["backward_time"].median
    0.125
    """

    NAME: str = "backward_time"
    FORMULA: str = "sum over the layers of the seconds of their gradients in a step"
    OMISSIONS: str = "the gradient of the loss, which is in other_time"
    SOURCE: str = "profilerkit's own definition"


class OptimizerTime(Seconds):
    """Seconds of a step that the optimizer took for its updates.

    >>> from profilerkit.times.steps import StepRecord
    >>> steps = WatchedSteps((0,), {0: StepRecord(0.5, optimizer=0.0625)}, loop_steps=1)
    >>> ComputeWatchedSteps()(steps)["optimizer_time"].median
    0.0625
    """

    NAME: str = "optimizer_time"
    FORMULA: str = "seconds of the optimizer's updates in a step"
    OMISSIONS: str = "a learning rate scheduler, which is in other_time"
    SOURCE: str = "profilerkit's own definition"


class OtherTime(Seconds):
    """The other seconds of a step: loading data, the loss and its gradient, the loop's own code, measuring.

    >>> from profilerkit.times.steps import StepRecord
    >>> steps = WatchedSteps((0,), {0: StepRecord(0.5, forward=0.25, backward=0.125)}, loop_steps=1)
    >>> ComputeWatchedSteps()(steps)["other_time"].value.median
    0.125
    """

    NAME: str = "other_time"
    FORMULA: str = "step_time - forward_time - backward_time - optimizer_time"
    OMISSIONS: str = "nothing: it is the rest"
    SOURCE: str = "profilerkit's own definition"


class StepMemory(Metric):
    """The most bytes that were allocated on the device at the end of a part of a step; by part in its mapping.

    >>> from profilerkit.times.steps import StepRecord
    >>> steps = WatchedSteps((0,), {0: StepRecord(0.5, memory={"step_end": 8})}, loop_steps=1)
    >>> ComputeWatchedSteps()(steps)["step_memory"]
    {'step_end': 8}
    """

    NAME: str = "step_memory"
    FORMULA: str = "bytes allocated on the device at the end of each part of the last measured step"
    OMISSIONS: str = "devices that do not report it"
    SOURCE: str = "the allocator's own statistics"

    def show(self) -> str:
        """Show the most."""
        return str(scale_value(max(self.value.values()), "B", Scale.IEC)) if self.value else ""


class ComputeWatchedSteps(ProfilerFunction):
    """Returns the times of the steps that `Profiler.watch` measured. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (StepTime, ForwardTime, BackwardTime, OptimizerTime, OtherTime, StepMemory)
    CHECKS: ClassVar[Mapping[str, Check]] = {
        "watched": instance(
            WatchedSteps, "the steps of a training loop, which Profiler.watch gives to functions"
        ).or_none()
    }
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True
    REPORTED_OF_WATCHED_STEPS: ClassVar[tuple[str, ...]] = (
        StepTime.NAME,
        ForwardTime.NAME,
        BackwardTime.NAME,
        OptimizerTime.NAME,
        OtherTime.NAME,
        LayerTimes.NAME,
        StepMemory.NAME,
        Macs.NAME,
        Flops.NAME,
        TrainingMacs.NAME,
        TrainingFlops.NAME,
        TrainingMemory.NAME,
        TrainingMemoryParts.NAME,
    )

    def __call__(self, watched: WatchedSteps | None = None) -> dict[str, Any]:
        """Return the seconds as `Measurement`, a sample for each step; requested steps that never ran are noted.

        A part that no measured step had is unavailable; a part that only some steps had has fewer samples.
        """
        keys = [key.NAME for key in self.list_keys()]
        if watched is None:
            return dict.fromkeys(keys, Unavailable("no training loop was watched; see Profiler.watch"))
        if not watched.steps:
            return dict.fromkeys(keys, Unavailable(watched.without_calls))
        steps = list(watched.steps.values())
        values = {
            StepTime.NAME: _add_notes([step.seconds for step in steps], watched),
            StepMemory.NAME: dict(steps[-1].memory) or Unavailable(watched.explain_absence("memory")),
        }
        unmeasured = []
        for key, part in ((ForwardTime, "forward"), (BackwardTime, "backward"), (OptimizerTime, "optimizer")):
            seconds = [getattr(step, part) for step in steps if getattr(step, part) is not None]
            values[key.NAME] = Measurement(tuple(seconds)) if seconds else Unavailable(watched.explain_absence(part))
            if not seconds:
                unmeasured.append(f"it has any {part} time that was not measured: {watched.explain_absence(part)}")
        values[OtherTime.NAME] = qualify(Measurement(tuple(step.other for step in steps)), notes=unmeasured)
        return values


def _add_notes(seconds: list[float], watched: WatchedSteps) -> Any:
    numbers = ", ".join(map(str, watched.steps))
    notes = [f"of {name_several('step', len(watched.steps))} {numbers} of a loop of {watched.loop_steps}"]
    if watched.unwatched:
        usual = scale_value(median(watched.unwatched), "s", Scale.TIME)
        notes.append(f"the steps that were not measured took {usual} (median of {len(watched.unwatched)})")
    value = Measurement(tuple(seconds))
    return Noted(value, "; ".join(filter(None, [*notes, watched.missed])))
