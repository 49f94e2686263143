"""Several models, each in a separate process, whose times are sampled in turn.

A process of a job ``in_turn`` waits before each function that runs its model, and before each sample. The caller
answers one process at a time, so one runs while the others are stopped. `measure_interleaved` decides whose sample is
next, as for models of one process, so the pairs and the interval of the ratio are computed alike.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..process.collector import collector_paused
from ..times.conditions import MachineWatch
from ..times.measurement import Measurement
from ..times.run import Run
from ..times.sampling import Sampling, measure_interleaved, sample_by
from .channel import Channel
from .messages import Plan
from .waiting import pump

if TYPE_CHECKING:
    from .run import IsolatedRun

__all__ = ["run_in_turn", "wait_for_answer", "wait_for_turns"]

# In the caller --------------------------------------------------------------------------------------------------------


class _NoSampleError(Exception):
    """Raised if a process that was to take a sample failed or ended."""

    def __init__(self, run: IsolatedRun) -> None:
        super().__init__()
        self.run = run


def run_in_turn(runs: Sequence[IsolatedRun]) -> None:
    """Run processes that wait for an answer until they have ended.

    The processes that wait to make the same measurement make it in turn. What one process alone computes comes before.
    """
    while waiting := [run for run in runs if not run.over]:
        first = max(waiting, key=lambda run: len(run.progress.pending))
        group = [run for run in waiting if run.progress.turn == first.progress.turn]
        for run in group:
            _answer(run, go=True)
        while ready := [run for run in group if run.progress.ready is not None and not run.over]:
            _measure(ready)


def wait_for_answer(run: IsolatedRun) -> None:
    """Let a process go on until it waits for an answer, or has ended."""
    pump([run], lambda: run.over or run.progress.waiting)


def _answer(run: IsolatedRun, **message: Any) -> None:
    run.answer(**message)
    wait_for_answer(run)


def _measure(ready: Sequence[IsolatedRun]) -> None:
    """Sample the processes in turn; if a process fails, sample the others again without it."""
    plan = ready[0].progress.ready or Sampling()
    measured: list[Measurement] = []
    while ready and not measured:
        try:
            measured = measure_interleaved([_SampledRun(run) for run in ready], plan)
        except _NoSampleError as error:
            ready = [run for run in ready if run is not error.run]
    session = uuid.uuid4().hex
    for run, measurement in zip(ready, measured, strict=True):
        _answer(run, finish=_describe_measurement(measurement, session))


class _SampledRun(Run):
    """A run in another process, which measures its time by its own clock."""

    def __init__(self, run: IsolatedRun) -> None:
        super().__init__(lambda: _sample(run))

    def seconds(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """Return the seconds that the pass took in its process."""
        return float(self())


def _sample(run: IsolatedRun) -> float:
    """Let a process take one sample and return its seconds; raises `_NoSampleError` if it takes none."""
    _answer(run, sample=True)
    if run.progress.sample is None:
        raise _NoSampleError(run)
    return run.progress.sample


def _describe_measurement(measurement: Measurement, session: str) -> dict[str, object]:
    """Return the result of the samples that a process took, from which it makes its `Measurement`."""
    return {
        "samples": list(measurement.samples),
        "warmup": list(measurement.warmup),
        "confidence": measurement.confidence,
        "session": session,
        "precision": measurement.precision,
        "adaptive": measurement.adaptive,
    }


# In the process of a model --------------------------------------------------------------------------------------------

#: A call that takes less than this many seconds is made for so long before it is timed: between two turns the other
#: process has had the caches.
WARM_SECONDS = 0.002
#: The least duration of a call in the calculation: some clocks stand still for a while.
_LEAST_SECONDS = 1e-7


@contextmanager
def wait_for_turns(channel: Channel) -> Iterator[None]:
    """Make every measurement of one call in this process wait for the caller's answers."""

    def sample(run: Run, plan: Sampling) -> Measurement:
        channel.send(ready={name: getattr(plan, name) for name in Plan.__struct_fields__})
        watch = MachineWatch()
        with collector_paused():
            last = WARM_SECONDS
            while "finish" not in (answer := channel.receive()):
                with watch:
                    last = _take_sample(run, plan, last)
                channel.send(sample=last)
        return Measurement(**answer["finish"], conditions=watch.conditions())

    with sample_by(sample):
        yield


def _take_sample(run: Run, plan: Sampling, last: float) -> float:
    """Return the seconds of a pass; one that was short the last time is run several times before."""
    if last < WARM_SECONDS:
        spent = 0.0
        while spent < WARM_SECONDS:
            spent += max(run.seconds(plan.clock), _LEAST_SECONDS)
    return run.seconds(plan.clock)
