"""Steps in series: where they are, how sure that is, and what is not a step."""

from __future__ import annotations

import random

import pytest
from stores import noisy

pytest.importorskip("ruptures")

from profilerkit.audits.steps import controlled, splits_of

pytestmark = pytest.mark.heavy


def test_a_step_is_at_the_night_where_it_was_planted() -> None:
    values = [*noisy(20, 0.01, 1, 1.0), *noisy(10, 0.01, 2, 1.1)]
    (split,) = splits_of(values)
    assert split.index == 20
    assert split.p < 0.001
    assert split.after / split.before == pytest.approx(1.1, rel=0.01)


def test_two_steps_are_two() -> None:
    values = [*noisy(20, 0.005, 11, 1.0), *noisy(20, 0.005, 12, 1.1), *noisy(20, 0.005, 14, 1.0)]
    assert [split.index for split in splits_of(values) if split.p < 0.01] == [20, 40]


def test_p_values_of_noise_are_those_of_noise() -> None:
    """Of 200 series without a step about 20 have a p-value of at most 0.1: between 8 and 35 with 99.9 %."""
    small = 0
    for seed in range(200):
        splits = splits_of(noisy(30, 0.01, seed, 1.0), seed)
        small += min(split.p for split in splits) <= 0.1
    assert 8 <= small <= 35


def test_one_odd_night_is_no_step() -> None:
    values = noisy(30, 0.01, 4, 1.0)
    values[15] = 3.0
    assert all(split.p > 0.01 for split in splits_of(values))


@pytest.mark.parametrize("values", [[], [1.0] * 40, noisy(7, 0.01, 1)])
def test_short_and_constant_series_have_none(values: list[float]) -> None:
    assert splits_of(values) == []


def test_rates_are_those_of_benjamini_and_hochberg() -> None:
    """By hand: q of the k-th smallest of n is the least of p n / k from there on."""
    p_values = [random.Random(7).random() for _ in range(20)]
    ordered = sorted(p_values)
    expected = [min(p * 20 / (k + 1) for k, p in enumerate(ordered) if k >= rank) for rank in range(20)]
    rates = controlled(p_values)
    assert [rates[p_values.index(p)] for p in ordered] == pytest.approx(expected)
    assert controlled([]) == []
