"""Intervals cover what they say although sampling stops by them, on machines that drift and stutter (simulated)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from statistics import median

import pytest

from profilerkit import Measurement, Ratio
from profilerkit.testing import FakeClock
from profilerkit.times.sampling import Sampling, measure, measure_interleaved

Noise = Callable[[random.Random], float]


def normal(spread: float) -> Noise:
    return lambda draw: math.exp(draw.gauss(0, spread))


def stuttering(spread: float) -> Noise:
    """Most calls are alike; one in ten is interrupted for a while."""
    return lambda draw: math.exp(draw.gauss(0, spread)) + (draw.expovariate(2.0) if draw.random() < 0.1 else 0)


def drifting(draw: random.Random) -> Iterator[float]:
    """A machine that gets slower and faster: by a random walk, and by half at once every now and then."""
    speed, slowed = 0.0, 1.0
    while True:
        speed += draw.gauss(0, 0.005)
        if draw.random() < 0.01:
            slowed = 2.5 - slowed
        yield math.exp(speed) * slowed


def compared(seed: int, noise: Noise, student: float, sampling: dict[str, float]) -> tuple[Ratio, float]:
    """Return the ratio of two calls, the second of which takes ``student`` times as long, and the time it took."""
    draw = random.Random(seed)
    clock, machine = FakeClock(), drifting(draw)

    def call(seconds: float) -> Callable[[], None]:
        return lambda: clock.advance(seconds * next(machine) * noise(draw))

    first, second = measure_interleaved([call(0.001), call(0.001 * student)], Sampling(clock=clock, **sampling))  # type: ignore[arg-type]
    return Ratio.of(first, second), clock.now


@pytest.mark.parametrize("noise", [normal(0.01), normal(0.03), stuttering(0.01), stuttering(0.03)])
@pytest.mark.parametrize("adaptive", [True, False])
def test_the_same_model_twice(noise: Noise, adaptive: bool) -> None:
    """The interval holds 1 in at least 95 of 100 trials, and the ratio errs by less than half a per cent."""
    sampling: dict[str, float] = {"max_seconds": 30.0} if adaptive else {"num_iters": 100}
    ratios = [compared(seed, noise, 1.0, sampling)[0] for seed in range(300)]
    assert sum(ratio.low <= 1 <= ratio.high for ratio in ratios) >= 0.95 * len(ratios)
    assert median(abs(ratio.value - 1) for ratio in ratios) < 0.005
    assert sum(ratio.is_real for ratio in ratios) <= 0.05 * len(ratios)


def test_a_student_that_is_three_per_cent_faster_is_called_faster() -> None:
    found = [compared(seed, stuttering(0.01), 0.97, {})[0] for seed in range(100)]
    assert all(ratio.is_real and ratio.high < 1 for ratio in found)
    assert median(ratio.value for ratio in found) == pytest.approx(0.97, abs=0.002)


def test_one_after_the_other_would_err() -> None:
    """What taking turns is for: the same machine, each model measured for itself."""

    def apart(seed: int) -> float:
        draw = random.Random(seed)
        clock, machine = FakeClock(), drifting(draw)
        times = [
            measure(lambda: clock.advance(0.001 * next(machine)), Sampling(clock=clock, num_iters=100, warmup=0))
            for _ in range(2)
        ]
        return abs(float(times[1]) / float(times[0]) - 1)

    assert median(map(apart, range(100))) > 0.02


@pytest.mark.parametrize("spread", [0.03, 0.05, 0.08])
def test_the_median_of_one_model_that_says_itself_when_to_stop(spread: float) -> None:
    covered = stopped = 0
    for seed in range(400):
        draw, clock = random.Random(seed), FakeClock()
        noise = normal(spread)
        call: Callable[[], None] = lambda: clock.advance(0.001 * noise(draw))  # noqa: B023, E731
        found = measure(call, Sampling(clock=clock, max_seconds=30.0, warmup=0))
        covered += found.interval[0] <= 0.001 <= found.interval[1]
        stopped += found.noise <= 0.02
    assert stopped == 400
    assert covered >= 0.95 * 400


def test_the_interval_of_adaptive_samples_is_the_wider_one() -> None:
    samples = tuple(float(value) for value in range(1, 41))
    # 40 fixed samples: P(Bin(40, 1/2) <= 13) = 1.92 %, <= 14 would be 4.03 %. Three fifths of the risk leave 1.5 % at
    # each end: P(Bin(40, 1/2) <= 12) = 0.83 %, and <= 13 is too much.
    assert Measurement(samples).interval == (14.0, 27.0)
    assert Measurement(samples, adaptive=True).interval == (13.0, 28.0)
    ratio = Ratio.of(Measurement((1.0,) * 40, session=1), Measurement(samples, session=1, adaptive=True))
    assert (ratio.low, ratio.high) == (13.0, 28.0)
