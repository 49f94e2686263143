"""Percentiles of samples, and how many samples a percentile needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["PERCENTILES", "compute_percentile", "is_supported", "samples_needed"]

#: The percentiles that have a name of their own.
PERCENTILES = (50, 90, 95, 99)


def compute_percentile(samples: Sequence[float], percent: float) -> float:
    """Return the sample below which ``percent`` per cent of the samples lie, interpolated linearly.

    >>> compute_percentile([1.0, 3.0], 75)
    2.5
    """
    ordered = sorted(samples)
    position = (len(ordered) - 1) * percent / 100
    lower, upper = ordered[math.floor(position)], ordered[math.ceil(position)]
    return lower + (upper - lower) * (position - math.floor(position)) if upper > lower else upper


def samples_needed(percent: float) -> int:
    """Return how many samples a percentile needs so that at least one of them is expected beyond it.

    The median, the smallest and the largest sample need one. Any other percentile of fewer samples would be the
    smallest or the largest of them by another name.

    >>> samples_needed(90), samples_needed(99), samples_needed(5), samples_needed(50)
    (10, 100, 20, 1)
    """
    tail = min(percent, 100 - percent)
    return 1 if tail in (0, 50) else math.ceil(round(100 / tail, 6))


def is_supported(percent: float, samples: int) -> bool:
    """Return whether so many samples can tell a percentile; see `samples_needed`."""
    return samples >= samples_needed(percent)
