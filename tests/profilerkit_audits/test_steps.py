"""Steps in series: where they are, how sure that is, and what is not a step."""

from __future__ import annotations

import random
from statistics import fmean

import numpy as np
import pytest
from stores import noisy

pytest.importorskip("scipy")

from profilerkit_audits.nights import estimate_correlation, find_share
from profilerkit_audits.rows import Row, RowStatus, Value
from profilerkit_audits.series import CaseName
from profilerkit_audits.step_search import search_steps
from profilerkit_audits.steps import control_rate, find_splits

pytestmark = pytest.mark.heavy


def test_a_step_is_at_the_night_where_it_was_planted() -> None:
    values = [*noisy(20, 0.01, 1, 1.0), *noisy(10, 0.01, 2, 1.1)]
    (split,) = find_splits(values)
    assert split.index == 20
    assert split.p < 0.001
    assert split.after / split.before == pytest.approx(1.1, rel=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_the_split_leaves_the_least_squares_that_any_leaves(seed: int) -> None:
    """The best of all splits with three nights on each side, tried one by one."""
    values = [*noisy(9 + seed, 0.05, seed, 1.0), *noisy(11, 0.05, seed + 100, 1.05)]

    def cost(*parts: list[float]) -> float:
        return sum((value - fmean(part)) ** 2 for part in parts for value in part)

    best = min(range(3, len(values) - 2), key=lambda index: cost(values[:index], values[index:]))
    assert best in [split.index for split in find_splits(values)]


def test_two_steps_are_two() -> None:
    values = [*noisy(20, 0.005, 11, 1.0), *noisy(20, 0.005, 12, 1.1), *noisy(20, 0.005, 14, 1.0)]
    assert [split.index for split in find_splits(values) if split.p < 0.01] == [20, 40]


def test_p_values_of_noise_are_those_of_noise() -> None:
    """Of 200 series without a step about 20 have a p-value of at most 0.1: between 8 and 35 with 99.9 %."""
    small = 0
    for seed in range(200):
        splits = find_splits(noisy(30, 0.01, seed, 1.0), seed)
        small += min(split.p for split in splits) <= 0.1
    assert 8 <= small <= 35


def test_one_odd_night_is_no_step() -> None:
    values = noisy(30, 0.01, 4, 1.0)
    values[15] = 3.0
    assert all(split.p > 0.01 for split in find_splits(values))


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_night_without_a_finite_time_is_no_step(odd: float) -> None:
    """No permutation of such nights gains as much, which would be the surest of all steps."""
    values = noisy(30, 0.01, 4, 1.0)
    values[15] = odd
    with pytest.raises(ValueError, match="a series has a value that is not finite"):
        find_splits(values)


@pytest.mark.parametrize("odd", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_left_out_of_the_search(odd: float) -> None:
    """Rows of another program may have one; the ten nights before and behind it are searched."""
    values = [*noisy(10, 0.01, 1), odd, *noisy(10, 0.01, 2)]
    rows = [
        Row("net.py:f", "k", RowStatus.COMPLETE, values={"execution_time": Value(at, "s", samples=9)}, run=str(night))
        for night, at in enumerate(values)
    ]
    searched = search_steps({CaseName("net.py:f"): rows}, 60)
    assert "1 measured value left out: not above zero" in searched.notes
    assert all(step.p > 0.01 and abs(step.change) < 0.05 for step in searched.steps)


@pytest.mark.parametrize("values", [[], [1.0] * 40, noisy(7, 0.01, 1)])
def test_short_and_constant_series_have_none(values: list[float]) -> None:
    assert find_splits(values) == []


def test_rates_are_those_of_benjamini_and_hochberg() -> None:
    """By hand: q of the k-th smallest of n is the least of p n / k from there on."""
    p_values = [random.Random(7).random() for _ in range(20)]
    ordered = sorted(p_values)
    expected = [min(p * 20 / (k + 1) for k, p in enumerate(ordered) if k >= rank) for rank in range(20)]
    rates = control_rate(p_values)
    assert [rates[p_values.index(p)] for p in ordered] == pytest.approx(expected)
    assert control_rate([]) == []


def draw_drift(nights: int, correlation: float, seed: int) -> list[float]:
    """Return noise in which each night is ``correlation`` times the one before, plus something new."""
    generator = random.Random(seed)
    values = [generator.gauss(0, (1 - correlation**2) ** -0.5)]
    while len(values) < nights:
        values.append(correlation * values[-1] + generator.gauss(0, 1))
    return values


def test_a_drift_is_no_step() -> None:
    """A tenth of the p-values is at most 0.1 if they are right: of 12 at most 5, with 99.9 %.

    Permutations alone, which a history of independent nights leads to, take most of the series for steps.
    """
    series = [draw_drift(365, 0.7, seed) for seed in range(12)]
    small = sum(min(split.p for split in find_splits(night[-60:], history=night)) <= 0.1 for night in series)
    independent = noisy(365, 0.01, 5)
    permuted = sum(min(split.p for split in find_splits(night[-60:], history=independent)) <= 0.1 for night in series)
    assert small <= 5
    assert permuted > 5


def test_the_estimate_correlation_nights() -> None:
    """Of independent nights it is 0.0 but for one series in many; it is about that of the nights that were drawn."""
    assert sum(estimate_correlation(noisy(60, 0.01, seed)) > 0 for seed in range(100)) <= 4
    estimates = sorted(estimate_correlation(draw_drift(365, 0.6, seed)) for seed in range(21))
    assert estimates[10] == pytest.approx(0.6, abs=0.12)
    assert estimate_correlation([1.0] * 40) == 0.0
    assert estimate_correlation(noisy(15, 0.01, 1)) == 0.0, "so few nights do not tell"


@pytest.mark.parametrize("places", [(20,), (20, 40), (15, 30, 45)])
def test_plain_steps_are_no_correlation(places: tuple[int, ...]) -> None:
    values = [value * 1.1 ** sum(night >= place for place in places) for night, value in enumerate(noisy(60, 0.01, 3))]
    assert estimate_correlation(values) == 0.0


# The machine's share of a night --------------------------------------------------------------------------------------

#: Nights that alternate between 0 and 1: the usual change from night to night is 1.
WAVE = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])


def test_steady_models_weigh_more_than_many_unsteady_ones() -> None:
    """Three models change by 1 a night, four by 100: the weights are 3 of 1 and 4 of 0.01; the plain median is 100."""
    deviations = np.array([WAVE] * 3 + [100 * WAVE] * 4)
    assert np.median(deviations, axis=0).tolist() == [0, 100, 0, 100, 0, 100]
    assert find_share(deviations).tolist() == WAVE.tolist()


def test_the_steadiest_model_alone_is_not_the_machine() -> None:
    """One model never changes but for a step; it weighs as the third steadiest, so the step is not that of all."""
    stepping = np.array([0.0, 0.0, 0.0, 5.0, 5.0, 5.0])
    deviations = np.array([stepping, WAVE, WAVE, WAVE, WAVE])
    assert find_share(deviations).tolist() == WAVE.tolist()


def test_nights_in_which_a_model_was_not_measured() -> None:
    deviations = np.array([WAVE, WAVE, WAVE, 100 * WAVE])
    deviations[0, 1] = deviations[1, 1] = deviations[2, 5] = np.nan
    assert find_share(deviations).tolist() == WAVE.tolist()
    deviations[:, 2] = np.nan
    assert np.isnan(find_share(deviations)[2])


def test_models_that_never_change_weigh_the_same() -> None:
    """The weighted median of 1, 2, 3 with equal weights is 2."""
    assert find_share(np.array([[1.0] * 4, [3.0] * 4, [2.0] * 4])).tolist() == [2.0] * 4
    assert find_share(np.array([[1.0], [3.0], [2.0]])).tolist() == [2.0], "one night tells no change"
