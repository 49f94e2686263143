"""Reading energy counters while a model runs, and while nothing runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profilerkit import Measurement
from profilerkit.times.sampling import FEWEST_SAMPLES, Sampling

from .counters import Counter

#: A lap has at least so many updates of the slowest counter: energy after its last update is then 2 % at most.
_UPDATES_IN_A_LAP = 50
#: Passes left out first by default: they compile, allocate and fill caches.
_WARMUP_PASSES = 3


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


class _CounterLog:
    """Reads several counters in turn; each lap begins at the end of the lap before, so that no energy is lost."""

    def __init__(self, counters: Sequence[Counter], clock: Callable[[], float]) -> None:
        self._counters, self._clock = counters, clock
        #: With so many seconds of a lap the steps of the counters do not matter.
        self.enough_seconds: float = _UPDATES_IN_A_LAP * max(counter.update_seconds for counter in counters)
        self._begin()

    def _begin(self) -> None:
        self._start = self._clock()
        self._counts = [counter.read() for counter in self._counters]

    @property
    def seconds(self) -> float:
        """The seconds of the lap so far."""
        return self._clock() - self._start

    def end_lap(self, passes: int = 1) -> Lap:
        """Return the lap since the end of the last one."""
        start, counts = self._start, self._counts
        self._begin()
        pairs = zip(self._counters, counts, self._counts, strict=True)
        return Lap(tuple(counter.joules(*ends) for counter, *ends in pairs), self._start - start, passes)


def measure_idle(counters: Sequence[Counter], clock: Callable[[], float], sleep: Callable[[float], None]) -> Lap:
    """Return the lap in which this process waits: for a second, or longer if counters are slow."""
    log = _CounterLog(counters, clock)
    sleep(max(1.0, log.enough_seconds))
    return log.end_lap()


def sample_passes(run: Callable[[], object], counters: Sequence[Counter], sampling: Sampling) -> list[Lap]:
    """Run a model again and again and return laps of as many passes as the slowest counter needs.

    At least three laps are taken. Then ``sampling`` determines when to stop, as for times.
    """
    for _ in range(_WARMUP_PASSES if sampling.warmup is None else sampling.warmup):
        run()
    log = _CounterLog(counters, sampling.clock)
    deadline = sampling.clock() + sampling.max_seconds
    laps: list[Lap] = []
    while not _is_enough(laps, sampling, deadline):
        passes = 0
        while not passes or log.seconds < log.enough_seconds:
            run()
            passes += 1
        laps.append(log.end_lap(passes))
    return laps


def _is_enough(laps: Sequence[Lap], sampling: Sampling, deadline: float) -> bool:
    """Return whether to stop: after a number of laps, or as soon as they are precise; late, after the fewest."""
    if sampling.num_iters is not None:
        return len(laps) >= sampling.num_iters
    if len(laps) < FEWEST_SAMPLES:
        return False
    measured = Measurement(tuple(lap.joules_of_pass for lap in laps), sampling.confidence, adaptive=True)
    is_precise = len(laps) >= sampling.min_samples and measured.noise <= sampling.relative_precision
    return is_precise or sampling.clock() >= deadline
