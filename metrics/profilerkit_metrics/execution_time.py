"""How long one forward pass takes, and how many samples go through in a second."""

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
    ProfilerFunction,
    Scale,
    Unavailable,
    WithoutValuesError,
)
from profilerkit.backend import Backend, DeviceLike
from profilerkit.data import ModelInputs
from profilerkit.intrinsic import batch_size_of
from profilerkit.measurement import Sampling, measure_interleaved

__all__ = ["ComputeExecutionTime", "ComputeFirstCall", "ExecutionTime", "FirstCallTime", "Throughput"]


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
        self, model: Any, backend: Backend, inputs: Any, device: DeviceLike = None, mode: str | None = None
    ) -> Any:
        """Return the seconds; unavailable where nothing is compiled, and for a model without values."""
        try:
            with backend.forward(model, ModelInputs.of(inputs), device, mode) as call:
                seconds = getattr(call, "first_call_seconds", None)
        except WithoutValuesError as error:
            return Unavailable(str(error))
        nothing = f"the {backend.name} backend compiles nothing in mode {backend.mode(mode)!r}: all calls are alike"
        return Unavailable(nothing) if seconds is None else seconds


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
        num_iters: int | None = None,
        warmup: int | None = None,
        relative_precision: float = 0.02,
        max_seconds: float = 3.0,
    ) -> dict[str, Any]:
        """Return the `Measurement` of a forward pass.

        Args:
            model: The model; it runs in inference mode.
            backend: The model's backend.
            inputs: What it is called with.
            device: Where to run; where the model is unless given.
            mode: How to run, as the backend calls it: "graph", "eager", "xla"; its usual way unless given.
            num_iters: A fixed number of samples; until the median is known well enough unless given.
            warmup: A fixed number of calls left out first; until the times settle unless given.
            relative_precision: How well the median must be known: 0.02 is plus or minus 2 %.
            max_seconds: When to stop at the latest.
        """
        arguments = {name: value for name, value in locals().items() if name != "self"}
        result: dict[str, Any] = self.measure_together([arguments])[0]
        return result

    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[dict[str, Any]]:
        """Return the measurements of several models, taken in turn."""
        sampling = Sampling(
            **{name: calls[0][name] for name in ("num_iters", "warmup", "relative_precision", "max_seconds")}
        )
        inputs = [ModelInputs.of(call["inputs"]) for call in calls]
        _require_equal_calls(calls[0], max(call["backend"].ranks(call["model"]) for call in calls))
        try:
            measured = _measured(calls, inputs, sampling)
        except WithoutValuesError as error:
            if len(calls) > 1:
                raise
            return [dict.fromkeys((ExecutionTime.NAME, Throughput.NAME), Unavailable(str(error)))]
        return [
            {ExecutionTime.NAME: time, Throughput.NAME: _throughput(time, batch_size_of(own, call["backend"]))}
            for call, own, time in zip(calls, inputs, measured, strict=True)
        ]


def _require_equal_calls(call: Mapping[str, Any], ranks: int) -> None:
    """Raise `InputError` where several processes run a model and each would decide by itself how often."""
    if ranks > 1 and (call["num_iters"] is None or call["warmup"] is None):
        raise InputError(
            f"the model runs in {ranks} processes, which must call it equally often, and not until each has seen "
            "enough: give num_iters= and warmup="
        )


def _measured(
    calls: Sequence[Mapping[str, Any]], inputs: Sequence[ModelInputs], sampling: Sampling
) -> list[Measurement]:
    with ExitStack() as running:
        passes = [
            running.enter_context(call["backend"].forward(call["model"], own, call["device"], call["mode"]))
            for call, own in zip(calls, inputs, strict=True)
        ]
        return measure_interleaved(passes, sampling)


def _throughput(time: Measurement, batch_size: int | None) -> Any:
    if batch_size is None:
        return Unavailable("the inputs share no first dimension that could be the batch")
    return time.map(lambda seconds: batch_size / seconds)
