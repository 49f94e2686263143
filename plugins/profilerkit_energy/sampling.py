"""Reading energy counters while a model runs, and while nothing runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profilerkit import Measurement
from profilerkit.times.sampling import FEWEST_SAMPLES, Sampling

from .counters import Counter

__all__ = ["CounterLog", "Lap", "measure_idle", "sample_passes"]

#: A lap has at least so many updates of the slowest counter: energy after its last update is then 2 % at most.
UPDATES_IN_A_LAP = 50
#: Passes left out first by default: they compile, allocate and fill caches.
WARMUP_PASSES = 3


@dataclass(frozen=True)
class Lap:
    """The counts of one stretch of time: the joules of each counter, the seconds, and the number of passes."""

    joules: tuple[float, ...]
    seconds: float
    passes: int

    @property
    def joules_of_pass(self) -> float:
        """The joules of one pass, of all counters together."""
        return math.fsum(self.joules) / self.passes

    @property
    def watts(self) -> float:
        """The mean power, of all counters together."""
        return math.fsum(self.joules) / self.seconds


class CounterLog:
    """Reads several counters in turn; each lap begins at the end of the lap before, so that no energy is lost."""

    def __init__(self, counters: Sequence[Counter], clock: Callable[[], float]) -> None:
        self.counters = counters
        self.clock = clock
        self.start = clock()
        self._counts = [counter.read() for counter in counters]

    @property
    def lap_seconds(self) -> float:
        """The least seconds of a lap with which the steps of the counters do not matter."""
        return UPDATES_IN_A_LAP * max(counter.update_seconds for counter in self.counters)

    def end_lap(self, now: float, passes: int = 1) -> Lap:
        """Return the lap since the end of the last one; ``now`` is the time of the clock."""
        counts = [counter.read() for counter in self.counters]
        pairs = zip(self.counters, self._counts, counts, strict=True)
        joules = tuple(counter.joules(before, after) for counter, before, after in pairs)
        lap = Lap(joules, now - self.start, passes)
        self.start, self._counts = now, counts
        return lap


def measure_idle(counters: Sequence[Counter], clock: Callable[[], float], sleep: Callable[[float], None]) -> Lap:
    """Return the lap in which this process waits: for a second, or longer if counters are slow."""
    log = CounterLog(counters, clock)
    sleep(max(1.0, log.lap_seconds))
    return log.end_lap(clock())


def sample_passes(run: Callable[[], object], counters: Sequence[Counter], sampling: Sampling) -> list[Lap]:
    """Run a model again and again and return laps of as many passes as the slowest counter needs.

    At least three laps are taken. Then ``sampling`` determines when to stop, as for times.
    """
    for _ in range(WARMUP_PASSES if sampling.warmup is None else sampling.warmup):
        run()
    log = CounterLog(counters, sampling.clock)
    deadline = log.start + sampling.max_seconds
    laps: list[Lap] = []
    while not _is_enough(laps, log.start >= deadline, sampling):
        laps.append(_run_lap(run, log))
    return laps


def _run_lap(run: Callable[[], object], log: CounterLog) -> Lap:
    now, passes = log.start, 0
    while now - log.start < log.lap_seconds or not passes:
        run()
        passes += 1
        now = log.clock()
    return log.end_lap(now, passes)


def _is_enough(laps: Sequence[Lap], is_late: bool, sampling: Sampling) -> bool:
    """Return whether to stop: after a number of laps, or as soon as they are precise; late, after the fewest."""
    if sampling.num_iters is not None:
        return len(laps) >= sampling.num_iters
    if len(laps) < FEWEST_SAMPLES:
        return False
    if is_late:
        return True
    measured = Measurement(tuple(lap.joules_of_pass for lap in laps), sampling.confidence, adaptive=True)
    return len(laps) >= sampling.min_samples and measured.noise <= sampling.relative_precision
