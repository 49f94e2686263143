"""How long one pass takes, forward or of training, and how many samples go through in a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from profilerkit import (
    Comparative,
    InputError,
    JointFunction,
    Measurement,
    Metric,
    Noted,
    NotOfferedError,
    ProfilerFunction,
    Scale,
    Unavailable,
    WithoutValuesError,
)
from profilerkit.backend import Backend, DeviceLike, RunOptions
from profilerkit.inputs import ModelInputs
from profilerkit.piping.intrinsic import batch_size_of
from profilerkit.protocols import RunsInRanks
from profilerkit.times.measurement import Sampling, measure_interleaved

__all__ = [
    "ComputeExecutionTime",
    "ComputeFirstCall",
    "ComputeTrainingTime",
    "ExecutionTime",
    "FirstCallTime",
    "Throughput",
    "TrainingTime",
]

_OPTIONS = ("training", "compile", "autocast", "num_threads", "device", "mode")


class ExecutionTime(Metric):
    """Seconds for one forward pass in inference mode: the median, with its confidence interval."""

    NAME = "execution_time"
    UNIT = "s"
    SCALE = Scale.TIME
    COMPARATIVE = Comparative.RECIPROCAL


class Throughput(Metric):
    """Samples through the model in one second, from the execution time of the batch."""

    NAME = "throughput"
    UNIT = "samples/s"
    COMPARATIVE = Comparative.DIV


class TrainingTime(Metric):
    """Seconds for one training step: the forward pass in training mode, and the gradients of the trainable weights."""

    NAME = "training_time"
    UNIT = "s"
    SCALE = Scale.TIME
    COMPARATIVE = Comparative.RECIPROCAL


class FirstCallTime(Metric):
    """Seconds that the first call takes, tracing and compiling the model included."""

    NAME = "first_call_time"
    UNIT = "s"
    SCALE = Scale.TIME
    COMPARATIVE = Comparative.RECIPROCAL


class ComputeFirstCall(ProfilerFunction):
    """Says what the first call takes, apart from all later ones. Computed where it is asked for by name."""

    ON_DEMAND = True
    ONLY_THROUGH_BACKEND = True

    def get_bounded_status_keys(self) -> type[Metric]:
        """Return `FirstCallTime`."""
        return FirstCallTime

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        device: DeviceLike = None,
        mode: str | None = None,
        training: bool = False,
        compile: Any = False,
        autocast: Any = None,
        num_threads: int | None = None,
    ) -> Any:
        """Return the seconds; unavailable where nothing is compiled, and for a model without values."""
        options = RunOptions(training, compile, autocast, num_threads, device, mode)
        try:
            with backend.run(model, ModelInputs.of(inputs), options) as run:
                seconds = run.first_call_seconds
        except (NotOfferedError, WithoutValuesError) as error:
            return Unavailable(str(error))
        nothing = f"the {backend.name} backend compiles nothing in mode {backend.mode(options)!r}: all calls are alike"
        return Unavailable(nothing) if seconds is None else _noted(seconds, options)


class ComputeExecutionTime(JointFunction):
    """Measures the time of a forward pass; of several models in turn where they are compared."""

    ONLY_THROUGH_BACKEND = True

    def get_bounded_status_keys(self) -> tuple[type[Metric], ...]:
        """Return `ExecutionTime` and `Throughput`."""
        return ExecutionTime, Throughput

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        device: DeviceLike = None,
        mode: str | None = None,
        training: bool = False,
        compile: Any = False,
        autocast: Any = None,
        num_threads: int | None = None,
        num_iters: int | None = None,
        warmup: int | None = None,
        drop_first: int | None = None,
        relative_precision: float = 0.02,
        max_seconds: float = 3.0,
    ) -> dict[str, Any]:
        """Return the `Measurement` of a forward pass, or of a training step.

        Args:
            model: The model; it runs in inference mode unless ``training``.
            backend: The model's backend.
            inputs: What it is called with.
            device: Where to run; where the model is unless given.
            mode: How to run, as the backend calls it: "graph", "eager", "xla"; its usual way unless given.
            training: Time training steps: the forward pass in training mode, and the gradients of the sum of its
                outputs by the trainable weights. The loss and the optimizer's update are not part of it.
            compile: Time the compiled model: True, or (in torch) a compiler's name or arguments for ``torch.compile``.
            autocast: Run under automatic mixed precision: True, or a dtype.
            num_threads: How many threads an operator may use meanwhile; as many as before unless given.
            num_iters: A fixed number of samples; until the median is known well enough unless given.
            warmup: A fixed number of calls left out first; until the times settle unless given.
            drop_first: The other name of ``warmup``.
            relative_precision: How well the median must be known: 0.02 is plus or minus 2 %.
            max_seconds: When to stop at the latest; several models together get this time for each.
        """
        arguments = {name: value for name, value in locals().items() if name != "self"}
        result: dict[str, Any] = self.measure_together([arguments])[0]
        return result

    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[dict[str, Any]]:
        """Return the measurements of several models, taken in turn."""
        inputs = [ModelInputs.of(call["inputs"]) for call in calls]
        try:
            measured = measured_in_turn(calls, inputs)
        except (NotOfferedError, WithoutValuesError) as error:
            if len(calls) > 1:
                raise
            return [dict.fromkeys((ExecutionTime.NAME, Throughput.NAME), Unavailable(str(error)))]
        return [
            {
                ExecutionTime.NAME: _noted(time, options_of(call)),
                Throughput.NAME: _noted(_throughput(time, batch_size_of(own, call["backend"])), options_of(call)),
            }
            for call, own, time in zip(calls, inputs, measured, strict=True)
        ]


def _require_equal_calls(sampling: Sampling, ranks: int) -> None:
    """Raise `InputError` where several processes run a model and each would decide by itself how often."""
    if ranks > 1 and (sampling.num_iters is None or sampling.warmup is None):
        raise InputError(
            f"the model runs in {ranks} processes, which must call it equally often, and not until each has seen "
            "enough: give num_iters= and warmup="
        )


def _ranks(backend: Backend, model: Any) -> int:
    return backend.ranks(model) if isinstance(backend, RunsInRanks) else 1


class ComputeTrainingTime(JointFunction):
    """Measures the time of a training step; of several models in turn. Computed where it is asked for by name."""

    ON_DEMAND = True
    ONLY_THROUGH_BACKEND = True

    def get_bounded_status_keys(self) -> type[Metric]:
        """Return `TrainingTime`."""
        return TrainingTime

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        device: DeviceLike = None,
        mode: str | None = None,
        compile: Any = False,
        autocast: Any = None,
        num_threads: int | None = None,
        num_iters: int | None = None,
        warmup: int | None = None,
        drop_first: int | None = None,
        relative_precision: float = 0.02,
        max_seconds: float = 3.0,
    ) -> Any:
        """Return the `Measurement` of a training step; the arguments are those of `ComputeExecutionTime`."""
        return self.measure_together([{name: value for name, value in locals().items() if name != "self"}])[0]

    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Return the measurements of several models, taken in turn."""
        steps = [{**call, "training": True} for call in calls]
        try:
            measured = measured_in_turn(steps, [ModelInputs.of(call["inputs"]) for call in calls])
        except (NotOfferedError, WithoutValuesError) as error:
            if len(calls) > 1:
                raise
            return [Unavailable(str(error))]
        return [
            _noted(time, options_of({**call, "training": False})) for time, call in zip(measured, steps, strict=True)
        ]


def measured_in_turn(calls: Sequence[Mapping[str, Any]], inputs: Sequence[ModelInputs]) -> list[Measurement]:
    """Return the time of each model, taken in turn; the arguments are those of `ComputeExecutionTime`."""
    sampling = sampling_of(calls[0])
    _require_equal_calls(sampling, max(_ranks(call["backend"], call["model"]) for call in calls))
    with ExitStack() as running:
        passes = [
            running.enter_context(call["backend"].run(call["model"], own, options_of(call)))
            for call, own in zip(calls, inputs, strict=True)
        ]
        return measure_interleaved(passes, sampling)


def sampling_of(call: Mapping[str, Any]) -> Sampling:
    """Return how to sample, from the arguments of a function; raises `InputError` for two warm-ups."""
    warmup, drop_first = call["warmup"], call["drop_first"]
    if None not in (warmup, drop_first) and warmup != drop_first:
        raise InputError(f"warmup={warmup} and drop_first={drop_first} are two names of one number; give one of them")
    return Sampling(
        **{name: call[name] for name in ("num_iters", "relative_precision", "max_seconds")},
        warmup=drop_first if warmup is None else warmup,
    )


def options_of(call: Mapping[str, Any]) -> RunOptions:
    """Return how to run the model, from the arguments of a function."""
    return RunOptions(**{name: call[name] for name in _OPTIONS})


def _noted(value: Any, options: RunOptions) -> Any:
    """Say how the model was run where that is not the usual way."""
    return Noted(value, str(options)) if options.given else value


def _throughput(time: Measurement, batch_size: int | None) -> Any:
    if batch_size is None:
        return Unavailable("the inputs share no first dimension that could be the batch")
    return time.map(lambda seconds: batch_size / seconds)
