"""How long one pass takes, forward or of training, and how many samples go through in a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from profilerkit import Comparative, InputError, JointFunction, Measurement, Metric, ProfilerFunction, Run, Unavailable
from profilerkit.backend import Backend, RunOptions
from profilerkit.inputs import ModelInputs
from profilerkit.piping.function import Keys
from profilerkit.piping.input_source import find_batch_size
from profilerkit.piping.outcome import qualify
from profilerkit.protocols import RunsInRanks, find_capability
from profilerkit.times.sampling import Sampling, measure_interleaved
from profilerkit.trace.observed_runs import ObservedRun, Witnessed

from .kinds import Seconds

__all__ = [
    "ComputeExecutionTime",
    "ComputeFirstCall",
    "ComputeTrainingTime",
    "ExecutionTime",
    "FirstCallTime",
    "Throughput",
    "TrainingTime",
]


class ExecutionTime(Seconds):
    """Seconds for one forward pass in inference mode: the median, with its confidence interval.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["execution_time"], num_iters=3)
    >>> len(report["execution_time"].samples)
    3
    """

    NAME: str = "execution_time"
    ALIASES: tuple[str, ...] = ("latency", "time")
    FORMULA: str = "median of the samples; its interval lies between two order statistics"
    OMISSIONS: str = "loading data and moving it to the device"
    SOURCE: str = "the sign-test interval of the median: Conover, Practical Nonparametric Statistics, section 3.2"


class Throughput(Metric):
    """Samples through the model in one second, from the execution time of the batch.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["throughput"], num_iters=3)
    >>> len(report["throughput"].samples)
    3
    """

    NAME: str = "throughput"
    UNIT: str = "samples/s"
    COMPARATIVE: Comparative = Comparative.DIV
    FORMULA: str = "batch size / each sample of the execution time"
    OMISSIONS: str = "loading data; it is unavailable if the inputs have no common first dimension"
    SOURCE: str = "profilerkit's own definition"


class TrainingTime(Seconds):
    """Seconds for one training step: the forward pass in training mode, and the gradients of the trainable weights.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["training_time"], num_iters=3)
    >>> len(report["training_time"].samples)
    3
    """

    NAME: str = "training_time"
    FORMULA: str = "median of the samples of one training step"
    OMISSIONS: str = "the loss, the optimizer's update, loading data"
    SOURCE: str = "as execution_time"


class FirstCallTime(Seconds):
    """Seconds of the first call, with tracing and compiling the model: a `Measurement` of one sample.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["first_call_time"])
    >>> report.status("first_call_time").completeness.value
    'unavailable'
    """

    NAME: str = "first_call_time"
    FORMULA: str = "seconds from the first call until the device is done"
    OMISSIONS: str = "loading the model; it is unavailable if nothing is compiled"
    SOURCE: str = "profilerkit's own definition"


class ComputeFirstCall(ProfilerFunction):
    """Measures the first call, apart from all later ones. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (FirstCallTime,)
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(self, model: Any, backend: Backend, inputs: Any, run_options: RunOptions) -> Any:
        """Return the seconds; unavailable if nothing is compiled, and for a model without values."""
        with backend.run(model, ModelInputs.of(inputs), run_options) as run:
            seconds = run.first_call_seconds
        mode = backend.mode(run_options)
        nothing = f"the {backend.name} backend compiles nothing in mode {mode!r}: all calls are alike"
        return Unavailable(nothing) if seconds is None else qualify(Measurement((seconds,)), notes=[str(run_options)])


class ComputeExecutionTime(JointFunction):
    """Measures the time of a forward pass; for several models in turn if they are compared."""

    KEYS: ClassVar[Keys] = (ExecutionTime, Throughput)
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self, model: Any, backend: Backend, inputs: Any, run_options: RunOptions, sampling: Sampling
    ) -> dict[str, Any]:
        """Return the `Measurement` of a forward pass, or of a training step, as `measure_together` does for one model.

        Args:
            model: The model; it runs in inference mode unless the options say otherwise.
            backend: The model's backend.
            inputs: The inputs of the model's call.
            run_options: A `RunOptions`, instead of the single arguments ``mode``, ``device``, ``training`` and others.
            sampling: A `Sampling`, instead of the single arguments ``num_iters``, ``max_seconds`` and others.
        """
        values: dict[str, Any] = self.alone(
            model=model, backend=backend, inputs=inputs, run_options=run_options, sampling=sampling
        )
        return values

    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[dict[str, Any]]:
        """Return the measurements of several models, taken in turn."""
        timed_calls = [_read_call(arguments) for arguments in calls]
        times = measure_in_turn(timed_calls, calls[0]["sampling"])
        return [_make_values(call, timed) for call, timed in zip(timed_calls, times, strict=True)]


class ComputeTrainingTime(JointFunction):
    """Measures the time of a training step; of several models in turn. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (TrainingTime,)
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(self, model: Any, backend: Backend, inputs: Any, run_options: RunOptions, sampling: Sampling) -> Any:
        """Return the `Measurement` of a training step; for the arguments see `ComputeExecutionTime`."""
        return self.alone(model=model, backend=backend, inputs=inputs, run_options=run_options, sampling=sampling)

    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Return the measurements of several models, taken in turn."""
        steps = [_read_call(arguments, training=True) for arguments in calls]
        times = measure_in_turn(steps, calls[0]["sampling"])
        # The note names the other options: the name of the metric says that a training step was timed.
        return [
            qualify(timed.time, notes=[str(replace(step.run_options, training=False))])
            for step, timed in zip(steps, times, strict=True)
        ]


class TimedCall(NamedTuple):
    """The arguments of timing a model; see `ComputeExecutionTime`."""

    model: Any
    backend: Backend
    inputs: ModelInputs
    run_options: RunOptions


class TimedModel(NamedTuple):
    """The time of a model, and the facts observed in its runs, which are compared with the static trace."""

    time: Measurement
    runs: tuple[ObservedRun, ...]


def measure_in_turn(calls: Sequence[TimedCall], sampling: Sampling) -> list[TimedModel]:
    """Return the time of each model; they take turns.

    Raises `InputError` if several processes run a model and each would choose the number of calls itself.
    """
    runners = ((find_capability(call.backend, RunsInRanks), call.model) for call in calls)
    ranks = max(1 if runner is None else runner.ranks(model) for runner, model in runners)
    if ranks > 1 and (sampling.num_iters is None or sampling.warmup is None):
        raise InputError(
            f"the model runs in {ranks} processes, which must call it equally often, and not until each has seen "
            "enough: give num_iters= and warmup="
        )
    with ExitStack() as running:
        passes = [
            Run.of(running.enter_context(call.backend.run(call.model, call.inputs, call.run_options))) for call in calls
        ]
        times = measure_interleaved(passes, sampling)
        for run in passes:
            run.observe()  # after the samples: it disturbs none, and a model may do other work by then
        return [TimedModel(time, tuple(run.runs)) for time, run in zip(times, passes, strict=True)]


def _read_call(arguments: Mapping[str, Any], training: bool = False) -> TimedCall:
    """Return a call of a function's arguments by name, as ``measure_together`` gets them."""
    options = arguments["run_options"]
    if training:
        options = replace(options, training=True)
    return TimedCall(arguments["model"], arguments["backend"], ModelInputs.of(arguments["inputs"]), options)


def _make_values(call: TimedCall, timed: TimedModel) -> dict[str, Any]:
    """Return execution time and throughput by name."""
    throughput: Any = Unavailable("the inputs share no first dimension that could be the batch")
    batch_size = find_batch_size(call.inputs, call.backend, call.model)
    if batch_size is not None:
        throughput = batch_size / timed.time
    notes = [str(call.run_options)]
    return {
        ExecutionTime.NAME: Witnessed(qualify(timed.time, notes=notes), timed.runs),
        Throughput.NAME: qualify(throughput, notes=notes),
    }


def note_left_out(options: RunOptions) -> str:
    """Return a note for a metric that is measured without the options of a run; empty for none and training."""
    left_out = str(replace(options, training=False))
    return f"measured without the options of execution_time: {left_out}" if left_out else ""
