"""Energy counters: numbers that only go up, and how much they went up while a call was repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profilerkit import Measurement

__all__ = ["Counter", "Found", "Sampled", "sample"]

#: A sample spans at least as many updates of the slowest counter: what its last update missed is then 2 % at most.
UPDATES_IN_A_SAMPLE = 50
#: Calls left out first: they compile, allocate and fill caches.
WARMUP_CALLS = 3
#: Samples taken at least, also where that takes longer than it may.
FEWEST_SAMPLES = 3
#: Samples taken before their spread says that they are enough.
SAMPLES_BEFORE_PRECISE = 12


@dataclass(frozen=True)
class Counter:
    """An energy counter of the hardware.

    ``read`` returns its count, each of which is worth ``joules_per_count``. One that wraps starts again at zero after
    ``highest``. The count moves every ``update_seconds``.
    """

    name: str
    read: Callable[[], int]
    joules_per_count: float
    update_seconds: float
    highest: int | None = None

    def joules(self, before: int, after: int) -> float:
        """Return the energy between two counts; it may have wrapped once in between."""
        counts = after - before
        if counts < 0 and self.highest is not None:
            counts += self.highest
        return counts * self.joules_per_count


@dataclass(frozen=True)
class Found:
    """The counters that can be read, and for those that cannot, a reason each."""

    counters: tuple[Counter, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sampled:
    """The joules of one call, and the names of the counters that did not move in all that time."""

    joules: Measurement
    still: tuple[str, ...]


def sample(
    call: Callable[[], object],
    counters: Sequence[Counter],
    clock: Callable[[], float],
    max_seconds: float,
    relative_precision: float,
) -> Sampled:
    """Repeat a call and return the joules of one.

    A sample is as many calls as `UPDATES_IN_A_SAMPLE` take, so that the counters' resolution does not decide it. One
    sample begins where the one before it ended: nothing falls between them.
    """
    span = UPDATES_IN_A_SAMPLE * max(counter.update_seconds for counter in counters)
    for _ in range(WARMUP_CALLS):
        call()
    samples: list[float] = []
    totals = dict.fromkeys((counter.name for counter in counters), 0.0)
    start = clock()
    deadline = start + max_seconds
    before = [counter.read() for counter in counters]
    while True:
        now, calls = start, 0
        while now - start < span:
            call()
            calls += 1
            now = clock()
        after = [counter.read() for counter in counters]
        spent = [counter.joules(*counts) for counter, *counts in zip(counters, before, after, strict=True)]
        for counter, joules in zip(counters, spent, strict=True):
            totals[counter.name] += joules
        samples.append(sum(spent) / calls)
        start, before = now, after
        measured = Measurement(tuple(samples), precision=relative_precision)
        if _enough(measured, now >= deadline, relative_precision):
            return Sampled(measured, tuple(name for name, joules in totals.items() if joules == 0))


def _enough(measured: Measurement, out_of_time: bool, relative_precision: float) -> bool:
    count = len(measured.samples)
    if out_of_time:
        return count >= FEWEST_SAMPLES
    return count >= SAMPLES_BEFORE_PRECISE and measured.noise <= relative_precision
