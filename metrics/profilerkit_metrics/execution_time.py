"""How long one forward pass takes, and how many samples go through in a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from profilerkit import Comparative, JointFunction, Measurement, Metric, Scale, Unavailable, WithoutValuesError
from profilerkit.backend import Backend, DeviceLike
from profilerkit.data import ModelInputs
from profilerkit.intrinsic import batch_size_of
from profilerkit.measurement import Sampling, measure_interleaved

__all__ = ["ComputeExecutionTime", "ExecutionTime", "Throughput"]


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


class ComputeExecutionTime(JointFunction):
    """Measures the time of a forward pass; of several models in turn where they are compared."""

    def get_bounded_status_keys(self) -> tuple[type[Metric], ...]:
        """Return `ExecutionTime` and `Throughput`."""
        return ExecutionTime, Throughput

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        device: DeviceLike = None,
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


def _measured(
    calls: Sequence[Mapping[str, Any]], inputs: Sequence[ModelInputs], sampling: Sampling
) -> list[Measurement]:
    with ExitStack() as running:
        passes = [
            running.enter_context(call["backend"].forward(call["model"], own, call["device"]))
            for call, own in zip(calls, inputs, strict=True)
        ]
        return measure_interleaved(passes, sampling)


def _throughput(time: Measurement, batch_size: int | None) -> Any:
    if batch_size is None:
        return Unavailable("the inputs share no first dimension that could be the batch")
    return time.map(lambda seconds: batch_size / seconds)
