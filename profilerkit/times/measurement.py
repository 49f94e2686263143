"""Time, measured so that people can believe it: every sample kept, one model or several taken in turn.

Several calls are sampled interleaved (A B B A ...), so that a drifting or shared machine cannot favour one of them;
their ratio comes from the pairs.

Sampling that looks at its samples and stops once they agree favours the stretches where they agree by chance: a plain
95 % interval then covers 93 % (in simulation; tests/profilerkit/times/test_sampling_statistics.py). Where the samples
themselves said when to stop, intervals are therefore made with three fifths of the risk of error, and cover 95 % again.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import count
from typing import Any

from ..arguments.checking import checked
from ..arguments.rules import RULES, of_kind
from ..errors import ArgumentError
from ..process.collector import collector_paused
from .run import Run, several
from .turns import conductor

__all__ = ["Measurement", "Ratio", "Sampling", "measure", "measure_interleaved"]

_sessions = count(1)

#: What is left of the risk of error for an interval whose own width said when to stop; enough up to 95 %.
SHARE_OF_RISK = 0.6
#: The percentiles that have a name of their own.
PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True)
class Measurement:
    """Samples of one quantity in its base unit (seconds for a time), and what follows from them.

    A measurement stands for its median wherever a number is wanted: ``float(m)``, ``m < 0.1``, ``f"{m:.3f}"``. A
    number times or over it, ``macs / m``, is again a measurement, with an interval of its own. Samples that were taken
    in turn with those of another measurement share its ``session``. ``precision`` is the noise that was asked for, None
    where none was; ``adaptive`` says that the samples themselves said when to stop.

    >>> Measurement((2.0, 1.0, 3.0)).median
    2.0
    """

    samples: tuple[float, ...]
    confidence: float = 0.95
    warmup: tuple[float, ...] = ()
    session: int | str | None = None
    precision: float | None = None
    adaptive: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", checked("samples", self.samples))
        object.__setattr__(self, "warmup", checked("warmup", self.warmup, "samples"))
        object.__setattr__(self, "confidence", checked("confidence", self.confidence))
        if not self.samples:
            raise ArgumentError("samples=(): a Measurement needs at least one sample")

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Measurement(median={self.median:.4g}, interval=({low:.4g}, {high:.4g}), samples={len(self.samples)})"

    @property
    def median(self) -> float:
        """The middle sample: half of the samples are below it."""
        return _percentile(self.samples, 50)

    @property
    def mean(self) -> float:
        """The arithmetic mean of the samples."""
        try:
            return math.fsum(self.samples) / len(self.samples)
        except (OverflowError, ValueError):  # the sum is beyond all floats, or there are infinities of both signs
            return sum(self.samples) / len(self.samples)

    @property
    def min(self) -> float:
        """The smallest sample."""
        return min(self.samples)

    @property
    def max(self) -> float:
        """The largest sample."""
        return max(self.samples)

    @property
    def iqr(self) -> float:
        """The interquartile range: the width of the middle half of the samples."""
        return self.percentile(75) - self.percentile(25)

    @property
    def p50(self) -> float:
        """The median."""
        return self.percentile(50)

    @property
    def p90(self) -> float:
        """The sample that nine in ten are below."""
        return self.percentile(90)

    @property
    def p95(self) -> float:
        """The sample that 95 in a hundred are below."""
        return self.percentile(95)

    @property
    def p99(self) -> float:
        """The sample that 99 in a hundred are below; of fewer than a hundred samples nearly the largest."""
        return self.percentile(99)

    def percentile(self, percent: float) -> float:
        """Return the sample below which ``percent`` per cent of the samples lie, interpolated linearly."""
        return _percentile(self.samples, checked("percent", percent))

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence interval of the median, free of any assumption on the distribution.

        Its ends are order statistics of the samples (binomial sign-test interval; Conover, Practical
        Nonparametric Statistics, section 3.2). Fewer than six samples cannot give 95 %: then it is their whole range.
        Where sampling stopped because the interval was narrow enough (``adaptive``) it is wider, so that it covers
        what it says all the same.
        """
        return _median_interval(sorted(self.samples), self.confidence, self.adaptive)

    @property
    def noise(self) -> float:
        """Half the width of the interval over the median: 0.02 is plus or minus 2 %."""
        low, high = self.interval
        return (high - low) / 2 / abs(self.median) if self.median else math.inf

    def taken_with(self, other: Measurement) -> bool:
        """Say whether the two were sampled in turn, so that their samples pair up."""
        return self.session is not None and self.session == other.session

    @property
    def warning(self) -> str | None:
        """Why the number should not be trusted too far, or None."""
        if self.precision is None or self.noise <= self.precision:
            return None
        return f"noisy: the median is known to ±{self.noise:.1%}, ±{self.precision:.1%} was asked for"

    def to_dict(self) -> dict[str, Any]:
        """Return every statistic and every sample as values that JSON can hold."""
        low, high = self.interval
        return {
            "median": self.median,
            "low": low,
            "high": high,
            "confidence": self.confidence,
            **{name: getattr(self, name) for name in ("mean", "iqr", "min", "max")},
            **{f"p{percent}": self.percentile(percent) for percent in PERCENTILES},
            "noise": self.noise if math.isfinite(self.noise) else None,
            "warning": self.warning,
            "adaptive": self.adaptive,
            "session": self.session,
            "samples": list(self.samples),
            "warmup": list(self.warmup),
        }

    def map(self, function: Callable[[float], float]) -> Measurement:
        """Return the measurement of a quantity that follows from each sample: ``m.map(lambda s: batch / s)``.

        The warning stays with the original, of which it is true.
        """
        samples, warmup = (tuple(map(function, taken)) for taken in (self.samples, self.warmup))
        return replace(self, samples=samples, warmup=warmup, precision=None)

    def __float__(self) -> float:
        return self.median

    def __truediv__(self, other: float | Measurement) -> Any:
        return self._with(other, lambda own, number: own / number)

    def __rtruediv__(self, other: float) -> Any:
        return self._with(other, lambda own, number: number / own)

    def __mul__(self, other: float | Measurement) -> Any:
        return self._with(other, lambda own, number: own * number)

    __rmul__ = __mul__

    def __add__(self, other: float | Measurement) -> Any:
        return self._with(other, lambda own, number: own + number)

    __radd__ = __add__

    def __sub__(self, other: float | Measurement) -> Any:
        return self._with(other, lambda own, number: own - number)

    def __rsub__(self, other: float) -> Any:
        return self._with(other, lambda own, number: number - own)

    def __le__(self, other: float | Measurement) -> bool:
        return float(self) <= float(other)

    def __ge__(self, other: float | Measurement) -> bool:
        return float(self) >= float(other)

    def __lt__(self, other: float | Measurement) -> bool:
        return float(self) < float(other)

    def __gt__(self, other: float | Measurement) -> bool:
        return float(self) > float(other)

    def __round__(self, digits: int | None = None) -> float:
        return round(float(self), digits)

    def __format__(self, specification: str) -> str:
        return format(float(self), specification) if specification else str(self)

    def _with(self, other: float | Measurement, operation: Callable[[float, float], float]) -> Any:
        """Apply an operation to every sample and a number; of two measurements, to their medians."""
        if isinstance(other, Measurement):
            return operation(self.median, other.median)
        try:
            number = float(other)
        except (TypeError, ValueError):
            return NotImplemented
        return self.map(lambda sample: operation(sample, number))


of_kind("reference", Measurement)


def _percentile(samples: Sequence[float], percent: float) -> float:
    ordered = sorted(samples)
    position = (len(ordered) - 1) * percent / 100
    lower, upper = ordered[math.floor(position)], ordered[math.ceil(position)]
    return lower + (upper - lower) * (position - math.floor(position)) if upper > lower else upper


@dataclass(frozen=True)
class Ratio:
    """One value over another, with its confidence interval: ``value``, ``low``, ``high``.

    ``paired`` says whether it comes from samples taken in turn; where it is False the interval is the widest that
    both measurements allow. Two exact values have an interval of no width.
    """

    value: float
    low: float
    high: float
    paired: bool = False

    @property
    def is_real(self) -> bool:
        """Whether the interval leaves out 1, that is, whether there is a difference."""
        return self.low > 1 or self.high < 1

    @classmethod
    def of(cls, reference: float | Measurement, other: float | Measurement) -> Ratio:
        """Return ``other`` over ``reference``; from the pairs where the two were sampled in turn."""
        reference, other = checked("reference", reference), checked("other", other, "reference")
        if isinstance(reference, Measurement) and isinstance(other, Measurement) and reference.taken_with(other):
            return _paired_ratio(reference, other)
        (ref_low, ref_high), (low, high) = _bounds(reference), _bounds(other)
        return cls(_divide(float(other), float(reference)), _divide(low, ref_high), _divide(high, ref_low))


def _bounds(value: float | Measurement) -> tuple[float, float]:
    return value.interval if isinstance(value, Measurement) else (float(value), float(value))


def _divide(value: float, reference: float) -> float:
    if reference:
        return value / reference
    return math.nan if value == 0 else math.copysign(math.inf, value)


def _paired_ratio(reference: Measurement, other: Measurement) -> Ratio:
    pairs = zip(reference.samples, other.samples, strict=True)
    quotients = sorted(_divide(b, a) for a, b in pairs)
    middle = len(quotients) // 2
    # The middle of two is their geometric mean: the ratio the other way round is then the reciprocal.
    value = quotients[middle] if len(quotients) % 2 else math.sqrt(quotients[middle - 1] * quotients[middle])
    adaptive = reference.adaptive or other.adaptive
    return Ratio(value, *_median_interval(quotients, reference.confidence, adaptive), paired=True)


def _median_interval(ordered: Sequence[float], confidence: float, adaptive: bool) -> tuple[float, float]:
    n = len(ordered)
    tail = (1 - confidence) / 2 * (SHARE_OF_RISK if adaptive else 1)
    if n > 1000:  # the normal approximation is exact to a sample here
        from statistics import NormalDist

        rank = math.floor(n / 2 + NormalDist().inv_cdf(tail) * math.sqrt(n) / 2)
    else:
        rank, below = 0, 0.5**n
        while below <= tail:
            rank += 1
            below += math.comb(n, rank) * 0.5**n
    rank = max(rank, 1)
    return ordered[rank - 1], ordered[n - rank]


@dataclass(frozen=True)
class Sampling:
    """When to stop: at a fixed number of samples, or once the median is known well enough.

    Times are in seconds. With ``num_iters`` that many samples are taken, no more and no fewer. Without, sampling
    stops when the median is known to plus or minus ``relative_precision``, or after ``max_seconds``. Several calls that
    are sampled in turn go on until every ratio is known to half of that, for ``max_seconds`` per call: of two things
    that are much alike the difference is asked for. ``warmup`` fixes the calls left out first; without it they go on
    until the times settle.
    """

    num_iters: int | None = None
    warmup: int | None = None
    relative_precision: float = 0.02
    max_seconds: float = 3.0
    min_samples: int = 12
    confidence: float = 0.95
    clock: Callable[[], float] = field(default=time.perf_counter, compare=False)

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name in RULES:
                object.__setattr__(self, each.name, checked(each.name, getattr(self, each.name)))


of_kind("sampling", Sampling)


def measure(call: Callable[[], object], sampling: Sampling | None = None) -> Measurement:
    """Time one call, which must return only when its work is done; the result is in seconds."""
    return measure_interleaved([call], sampling)[0]


def measure_interleaved(calls: Sequence[Callable[[], object]], sampling: Sampling | None = None) -> list[Measurement]:
    """Time several calls in turn (A B B A ...): as many samples of each, in seconds, paired by round.

    A call that is a `Run` is timed as it says: by its device's own clock where it has one.
    """
    plan = sampling or Sampling()
    runs = [Run.of(call) for call in calls]
    conduct = conductor()
    if conduct is not None and len(runs) == 1:
        return [conduct(runs[0], plan)]
    session = (os.getpid() << 96) | (time.time_ns() << 32) | next(_sessions)  # no two processes share one
    # Of several calls only the ratios are asked to be precise, so a single one is not warned of.
    wanted = plan.relative_precision if len(runs) == 1 and plan.num_iters is None else None
    with collector_paused():
        warmups = [_warm_up(run, plan) for run in runs]
        samples: list[list[float]] = [[] for _ in runs]
        deadline = plan.clock() + plan.max_seconds * len(runs)
        check_at = plan.num_iters or plan.min_samples
        while True:
            while len(samples[0]) < check_at:
                if len(runs) == 1 and runs[0].TAKES_SEVERAL:
                    left = math.inf if plan.num_iters is not None else deadline - plan.clock()
                    samples[0] += several(runs[0], samples[0], check_at - len(samples[0]), left, plan.clock)
                else:
                    _one_round(runs, samples, plan.clock)
                if plan.num_iters is None and len(samples[0]) >= 3 and plan.clock() >= deadline:
                    check_at = len(samples[0])
            results = [
                Measurement(tuple(taken), plan.confidence, tuple(warmup), session, wanted, plan.num_iters is None)
                for taken, warmup in zip(samples, warmups, strict=True)
            ]
            if plan.num_iters is not None or plan.clock() >= deadline or _precise(results, plan.relative_precision):
                return results
            check_at = math.ceil(check_at * 1.2)


def _one_round(runs: Sequence[Run], samples: list[list[float]], clock: Callable[[], float]) -> None:
    order = range(len(runs)) if len(samples[0]) % 2 == 0 else range(len(runs) - 1, -1, -1)
    for index in order:
        samples[index].append(runs[index].seconds(clock))


def _precise(results: Sequence[Measurement], precision: float) -> bool:
    reference, *others = results
    if not others:
        return reference.noise <= precision
    ratios = [Ratio.of(reference, other) for other in others]
    return all(ratio.high - ratio.low <= precision * ratio.value for ratio in ratios)


def _warm_up(run: Run, plan: Sampling) -> list[float]:
    """Run until three passes in a row bring nothing new, for a quarter of the time at most."""
    times: list[float] = []
    stale, best = 0, math.inf
    deadline = plan.clock() + plan.max_seconds / 4
    while len(times) < plan.warmup if plan.warmup is not None else stale < 3:
        times.append(run.seconds(plan.clock))
        stale = 0 if times[-1] < best * 0.95 else stale + 1
        best = min(best, times[-1])
        if plan.warmup is None and plan.clock() >= deadline:
            break
    return times
