"""Which percentiles so many samples can tell."""

from __future__ import annotations

import pytest

from profilerkit.times.median import is_supported, samples_needed


@pytest.mark.parametrize(
    ("percent", "needed"),
    [(0, 1), (100, 1), (50, 1), (90, 10), (10, 10), (95, 20), (99, 100), (99.9, 1000), (75, 4), (60, 3)],
)
def test_at_least_one_sample_is_expected_beyond_a_percentile(percent: float, needed: int) -> None:
    """One in a hundred lies above the 99th: a hundred samples; of the 60th one in 2.5: three."""
    assert samples_needed(percent) == needed
    assert is_supported(percent, needed)
    assert not is_supported(percent, needed - 1)
