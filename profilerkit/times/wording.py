"""Intervals in words: of a median, and of a ratio of two."""

from __future__ import annotations

import math

from ..count_text import format_count
from .median import MedianInterval

__all__ = ["format_noise", "format_percent", "name_range", "warn_of_noise"]


def format_percent(probability: float) -> str:
    """Return a probability as text: "93.8 %"."""
    return f"{100 * probability:.4g} %"


def format_noise(noise: float, digits: int = 1) -> str:
    """Return how far a value may be off as text: "±4.7%"; a small noise is never written as 0.

    >>> format_noise(0.047), format_noise(0.047, digits=0), format_noise(0.002, digits=0)
    ('±4.7%', '±5%', '±0.2%')
    >>> format_noise(0.0001), format_noise(80.3)
    ('±<0.1%', '±8,030%')
    """
    if not math.isfinite(noise):
        return "±?"
    if noise > 1:
        return f"±{noise:,.0%}"
    if 0 < noise < 0.0005:
        return "±<0.1%"
    if noise < 0.005:
        digits = 1
    return f"±{noise:.{digits}%}"


def name_range(number: int, sample: str, coverage: float) -> str:
    """Return the name of an interval of too few samples, or pairs: "range of 3 samples, 75 %"."""
    return f"range of {format_count(number, sample)}, {format_percent(coverage)}"


def warn_of_noise(
    interval: MedianInterval, noise: float, requested: float, *, number: int, sample: str, result: str
) -> str:
    """Return why a median or a ratio is less precise than requested: it scatters, or has too few independent samples.

    Args:
        interval: The interval of the result.
        noise: Half the width of the interval over the result.
        requested: The noise that was requested.
        number: The number of samples or pairs of the result.
        sample: The word for one of these: "sample", or "pair".
        result: "median", or "ratio".
    """
    if not interval.is_range:
        return f"noisy: the {result} is precise to {format_noise(noise)}, ±{requested:.1%} was requested"
    if interval.effective < number:
        reason = f"{number} dependent samples, worth {interval.effective:.1f} independent ones"
    else:
        reason = f"{format_count(number, sample)} {'is' if number == 1 else 'are'} too few for an interval"
    return f"noisy: {reason}; ±{requested:.1%} was requested"
