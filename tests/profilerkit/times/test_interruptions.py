"""A drift is not an interruption: samples that stand apart are no ends of an interval, and all others may be."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from profilerkit import Measurement, Ratio
from profilerkit.times.dependence import count_independent
from profilerkit.times.median import find_median_interval

#: Microseconds that grow from 14 to 24 in equal steps, in the order in which they were taken.
DRIFT = [14 + 10 * index / 59 for index in range(60)]


def interrupt(samples: Sequence[float], values: dict[int, float]) -> tuple[float, ...]:
    return tuple(values.get(index, sample) for index, sample in enumerate(samples))


@pytest.mark.parametrize("at", [0, 1, 30, 58, 59])
@pytest.mark.parametrize("value", [16_268.0, -5_000.0])
def test_one_sample_is_no_end_of_a_drift(at: int, value: float) -> None:
    """Of 60 samples of 14 to 24 and one far away, the interval lies from 14 to 24."""
    measured = Measurement(interrupt(DRIFT, {at: value}))
    assert count_independent(measured.samples) < 30, "the drift is seen beside it"
    low, high = measured.interval
    assert 14 <= low <= measured.median <= high <= 24
    assert measured.max == max(value, 24) or at == 59, "the statistics of the samples have it"


@pytest.mark.parametrize("at", [(3, 40), (20, 21), (5, 30, 50)])
def test_a_twentieth_of_the_samples_may_be_interruptions(at: tuple[int, ...]) -> None:
    slow = {index: 9_000.0 + 400 * number for number, index in enumerate(at)}
    assert Measurement(interrupt(DRIFT, slow)).interval[1] <= 24


@pytest.mark.parametrize("slow", [4, 10, 30])
def test_a_second_state_is_no_interruption(slow: int) -> None:
    """Slow samples that are more than a twentieth of all, in a row: the clock changed, and the range has them."""
    samples = interrupt(DRIFT, dict.fromkeys(range(20, 20 + slow), 500.0))
    assert count_independent(samples) < 30
    assert Measurement(samples).interval[1] == 500


def test_a_ratio_of_pairs_is_not_carried_by_one_either() -> None:
    reference = Measurement(tuple(DRIFT), session=1)
    other = Measurement(
        interrupt([2 * (1 + 0.001 * index) * sample for index, sample in enumerate(DRIFT)], {9: 1e5}), session=1
    )
    ratio = Ratio.of(reference, other)
    assert ratio.effective_pairs < 60
    assert 2 <= ratio.low <= ratio.value <= ratio.high <= 2 * 1.06


def autoregressive(coefficient: float, draw: random.Random, number: int) -> tuple[float, ...]:
    samples, now = [], draw.gauss(0, 1)
    for _ in range(number):
        samples.append(10 + now)
        now = coefficient * now + math.sqrt(1 - coefficient**2) * draw.gauss(0, 1)
    return tuple(samples)


@pytest.mark.parametrize("number", [30, 100])
def test_what_has_no_interruption_has_the_ends_that_it_had(number: int) -> None:
    """Samples that depend on their neighbors, 300 series: the outermost ones stand apart in hardly any of them."""
    draw, cut = random.Random(number), 0
    for _ in range(300):
        samples = autoregressive(0.8, draw, number)
        found = find_median_interval(samples, 0.95, False)
        cut += found.is_range and (found.low, found.high) != (min(samples), max(samples))
    assert cut <= 3
