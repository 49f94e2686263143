"""Taking samples: the warm-up, when to stop, and several models in turn.

Several calls are sampled interleaved. The first call of each round is drawn at random, so that neither a drifting
machine nor a program that runs at regular times favors one call; see docs/decisions/interleaved-timing.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count

from ..arguments.checks import at_least, positive
from ..errors import ArgumentError
from ..process.collector import collector_paused
from .conditions import MachineWatch
from .measurement import CONFIDENCE, Measurement
from .median import agree
from .ratio import Ratio
from .run import Run

__all__ = ["Sampling", "measure", "measure_interleaved", "sample_by"]

#: The numbers of the calls of `measure_interleaved` in this process.
_sessions = count(1)
#: The function that samples a single call in this context; None for `measure_interleaved` itself.
_sampler: ContextVar[Callable[[Run, Sampling], Measurement] | None] = ContextVar("sampler", default=None)

#: So many samples of each call are taken even if that takes longer than there is time.
FEWEST_SAMPLES = 3
#: If the samples are not precise yet, sampling continues to so many times as many samples.
_GROWTH = 1.2
#: The part of the time that warming up may take.
_WARMUP_SHARE = 1 / 4
#: Times have settled when so many passes in a row were not faster than the best before them by this factor.
_STALE_PASSES, _FASTER = 3, 0.95
#: The checks of the arguments of `Sampling`; ``drop_first`` is another name of ``warmup``.
SAMPLING_CHECKS = {
    "num_iters": at_least(1, "a whole number from 1: at least one iteration is needed to measure").or_none(),
    "warmup": at_least(0, "zero or more calls, or None to let the times settle").or_none(),
    "relative_precision": positive("0.02 for 2 %"),
    "max_seconds": positive("1.5"),
    "min_samples": at_least(1, "a whole number from 1: at least one sample is needed to measure anything"),
    "confidence": CONFIDENCE,
}


@dataclass(frozen=True)
class Sampling:
    """When to stop: at a fixed number of samples, or once the median is known well enough.

    Attributes:
        num_iters: How many samples are taken; None to stop by the other criteria.
        warmup: How many calls are left out first; None for as many as it takes until the times settle, for a quarter of
            ``max_seconds`` at most.
        relative_precision: Sampling stops when the median is known to plus or minus this share, were the samples
            independent; if neighboring samples are alike, the interval becomes wider. Several calls that are sampled in
            turn go on until every ratio is known to half of this, because compared calls often differ little.
        max_seconds: Seconds for all calls together, warm-up included; three samples of each are taken even if that
            takes longer.
        min_samples: The number of samples before the first check of their precision.
        confidence: The probability of the intervals.
        clock: Returns seconds.
        seed: Fixes the order within each round; without a seed, the order is drawn anew.
    """

    num_iters: int | None = None
    warmup: int | None = None
    relative_precision: float = 0.02
    max_seconds: float = 3.0
    min_samples: int = 12
    confidence: float = 0.95
    clock: Callable[[], float] = field(default=time.perf_counter, compare=False)
    seed: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, check in SAMPLING_CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))


def measure(call: Callable[[], object], sampling: Sampling | None = None) -> Measurement:
    """Time one call, which must return only when its work is done; the result is in seconds."""
    return measure_interleaved([call], sampling)[0]


def measure_interleaved(calls: Sequence[Callable[[], object]], sampling: Sampling | None = None) -> list[Measurement]:
    """Time several calls in turn: as many samples of each, in seconds, paired by round.

    The order of the calls is drawn anew for each round. A call that is a `Run` is timed by its `seconds`: by the clock
    of its device if it has one. Raises `ArgumentError` if there are no calls.
    """
    if not calls:
        raise ArgumentError("calls=[]: give at least one call to time")
    plan = sampling or Sampling()
    runs = [Run.of(call) for call in calls]
    sampler = _sampler.get()
    if sampler is not None and len(runs) == 1:
        return [sampler(runs[0], plan)]
    session = (os.getpid() << 96) | (time.time_ns() << 32) | next(_sessions)  # no two processes share one
    deadline = plan.clock() + plan.max_seconds
    with collector_paused(), MachineWatch() as watch:
        warmups = _warm_up(runs, plan)
        rounds = _Rounds(runs, plan.clock, random.Random(session if plan.seed is None else plan.seed))
        rounds.take(plan, deadline)
    conditions = watch.conditions()
    is_adaptive = plan.num_iters is None
    return [
        Measurement(
            tuple(samples),
            plan.confidence,
            tuple(warmup),
            session,
            precision=plan.relative_precision if is_adaptive else None,
            adaptive=is_adaptive,
            conditions=conditions,
        )
        for samples, warmup in zip(rounds.samples, warmups, strict=True)
    ]


@contextmanager
def sample_by(sampler: Callable[[Run, Sampling], Measurement]) -> Iterator[None]:
    """Let another function take every measurement of a single call: a function that waits for its turn each time."""
    token = _sampler.set(sampler)
    try:
        yield
    finally:
        _sampler.reset(token)


# The warm-up ----------------------------------------------------------------------------------------------------------


def _warm_up(runs: Sequence[Run], plan: Sampling) -> list[list[float]]:
    """Return the seconds of the passes left out of each run; all together take a quarter of the time at most."""
    start = plan.clock()
    seconds_each = plan.max_seconds * _WARMUP_SHARE / len(runs)
    return [_settle(run, plan, start + seconds_each * number) for number, run in enumerate(runs, start=1)]


def _settle(run: Run, plan: Sampling, deadline: float) -> list[float]:
    """Run as often as requested; or until the times have settled or the time is over, at least once."""
    if plan.warmup is not None:
        return [run.seconds(plan.clock) for _ in range(plan.warmup)]
    times: list[float] = []
    best, stale = math.inf, 0
    while stale < _STALE_PASSES:
        seconds = run.seconds(plan.clock)
        times.append(seconds)
        stale = 0 if seconds < best * _FASTER else stale + 1
        best = min(best, seconds)
        if plan.clock() >= deadline:
            break
    return times


# The samples ----------------------------------------------------------------------------------------------------------


class _Rounds:
    """Takes samples of several runs, in rounds with one sample of each run.

    Attributes:
        samples: The samples of each run so far, in seconds.
    """

    def __init__(self, runs: Sequence[Run], clock: Callable[[], float], draw: random.Random) -> None:
        self.samples: list[list[float]] = [[] for _ in runs]
        self._runs, self._clock, self._draw = runs, clock, draw

    def take(self, plan: Sampling, deadline: float) -> None:
        """Take as many samples as requested, or until they agree or the time is over."""
        if plan.num_iters is not None:
            self._take_up_to(plan.num_iters, math.inf)
            return
        number = plan.min_samples
        self._take_up_to(number, deadline)
        while not (self._is_over(deadline) or _is_precise(self.samples, plan)):
            number = math.ceil(number * _GROWTH)
            self._take_up_to(number, deadline)

    def _take_up_to(self, number: int, deadline: float) -> None:
        """Take samples until each run has ``number`` of them, or until the time is over."""
        while len(self.samples[0]) < number and not self._is_over(deadline):
            self._take_round()

    def _is_over(self, deadline: float) -> bool:
        """Return whether the time is over, and there are the fewest samples that are taken even then."""
        return len(self.samples[0]) >= FEWEST_SAMPLES and self._clock() >= deadline

    def _take_round(self) -> None:
        """Take a sample of each run, in a random order.

        In a fixed order, regular events on the machine could disturb the same run again and again. In a random order
        they disturb every run with the same probability, so that the sign test of the pairs is valid for any noise.
        """
        for index in self._draw.sample(range(len(self._runs)), len(self._runs)):
            self.samples[index].append(self._runs[index].seconds(self._clock))


def _is_precise(samples: Sequence[Sequence[float]], plan: Sampling) -> bool:
    """Return whether the median of one run, or each ratio to the first of several, is known as well as requested."""
    if len(samples) == 1:
        return agree(samples[0], plan.confidence, plan.relative_precision)
    reference, *others = (Measurement(tuple(taken), plan.confidence, session=0, adaptive=True) for taken in samples)
    ratios = [Ratio.of(reference, other) for other in others]
    return all(not ratio.is_range and 2 * ratio.noise <= plan.relative_precision for ratio in ratios)
