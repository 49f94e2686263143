"""What models have in common in a night: steady models weigh most, and no single one is the machine."""

from __future__ import annotations

import numpy as np

from profilerkit.audits.steps import find_share

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
