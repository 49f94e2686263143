"""Several models, each in a separate process, whose times are sampled in turn.

The caller decides which process runs when, and requests each sample, which a process takes by its own clock (`child`).
`measure_interleaved` handles these samples like samples of models in one process, so the pairs and the interval of the
ratio are computed alike.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence

from ..times.measurement import Measurement
from ..times.run import Run
from ..times.sampling import Sampling, measure_interleaved
from .run import IsolatedRun
from .waiting import pump

__all__ = ["Turns"]


class _NoSampleError(Exception):
    """Raised if a process that was to take a sample failed or ended."""


class Turns:
    """Lets one process at a time run.

    First each process computes the results that need no run of its model. Then the measurements that all models have in
    common are made in turn, and each process makes its other measurements alone.
    """

    def __init__(self, runs: Iterable[IsolatedRun] = ()) -> None:
        self.runs: list[IsolatedRun] = [*runs]
        #: The measurements that each run has had its turn for.
        self._done: dict[IsolatedRun, set[str]] = {run: set() for run in self.runs}

    def add(self, run: IsolatedRun) -> None:
        """Add a process that was just started; it runs until it waits for its turn, or has ended."""
        self.runs.append(run)
        self._done[run] = set()
        pump(self.runs, lambda: run.over or run.progress.waiting)
        run.stop()

    def run_all(self) -> None:
        """Run all processes until they have ended."""
        for run in self.runs:
            self._let_run(run)
        while group := self._find_next_group():
            for run in group:
                self._grant_turn(run)
            while ready := [run for run in group if _is_ready(run)]:
                self._measure(ready)

    def _find_next_group(self) -> list[IsolatedRun]:
        """Return the processes whose turn is next: several if they wait to make the same measurement together."""
        waiting = [run for run in self.runs if run.progress.waiting and not run.over]
        for run in waiting:
            turn = run.progress.turn
            if not turn:
                return [run]
            taking_part = [other for other in self.runs if not other.over and self._is_yet_to_measure(other, turn)]
            if all(other.progress.waiting and other.progress.turn == turn for other in taking_part):
                return taking_part
        return waiting[:1]

    def _is_yet_to_measure(self, run: IsolatedRun, name: str) -> bool:
        """Return whether a process waits to make a measurement, or has planned it and has not had its turn."""
        return run.progress.turn == name or (name in run.progress.joint and name not in self._done[run])

    def _grant_turn(self, run: IsolatedRun) -> None:
        """Let a process go on that waits for its turn."""
        self._done[run].add(run.progress.turn)
        run.progress.waiting, run.progress.turn = False, ""
        run.send(go=True)
        self._let_run(run)

    def _let_run(self, run: IsolatedRun) -> None:
        """Let one process run until it waits for its turn, or until it is ready to take a sample."""
        self._stop_others(run)
        pump(self.runs, lambda: run.over or run.progress.waiting or run.progress.ready is not None)
        run.stop()

    def _stop_others(self, run: IsolatedRun) -> None:
        """Stop all processes but one, and let that one run."""
        for other in self.runs:
            if other is not run:
                other.stop()
        run.go_on()

    def _measure(self, ready: Sequence[IsolatedRun]) -> None:
        """Sample the processes in turn; if a process fails, sample the others again without it."""
        measured: list[Measurement] = []
        while ready and not measured:
            plan = ready[0].progress.ready or Sampling()
            calls = [_SampledRun(self, run) for run in ready]
            try:
                measured = measure_interleaved(calls, plan)
            except _NoSampleError:
                ready = [run for run in ready if _is_ready(run)]
        session = uuid.uuid4().hex
        for run, measurement in zip(ready, measured, strict=True):
            run.progress.ready = None
            run.send(finish=_describe_measurement(measurement, session))
            self._let_run(run)

    def sample(self, run: IsolatedRun) -> float:
        """Let a process take one sample and return its seconds; raises `_NoSampleError` if it takes none."""
        self._stop_others(run)
        progress = run.progress
        progress.sample = None
        times_ready = progress.times_ready

        def has_answered() -> bool:
            has_moved_on = progress.waiting or progress.times_ready > times_ready  # it takes no further samples here
            return run.over or has_moved_on or progress.sample is not None

        run.send(sample=True)
        pump(self.runs, has_answered)
        if progress.sample is None:
            raise _NoSampleError
        return progress.sample


class _SampledRun(Run):
    """A run in another process, which measures its time by its own clock."""

    def __init__(self, turns: Turns, run: IsolatedRun) -> None:
        super().__init__(lambda: turns.sample(run))

    def seconds(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """Return the seconds that the pass took in its process."""
        return float(self())


def _is_ready(run: IsolatedRun) -> bool:
    """Return whether a process waits for the request of a sample."""
    return run.progress.ready is not None and not run.over


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
