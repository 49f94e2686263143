"""Intervals in words: of a median, and of a ratio of two."""

from __future__ import annotations

from ..count_text import format_count
from .median import MedianInterval

__all__ = ["format_percent", "interval_name", "noise_text", "noise_warning"]


def format_percent(probability: float) -> str:
    """Return a probability as text: "93.8 %"."""
    return f"{100 * probability:.4g} %"


def noise_text(noise: float, digits: int = 1) -> str:
    """Return how far a value may be off as text: "±4.7%"; a small one is never said to be none.

    >>> noise_text(0.047), noise_text(0.047, 0), noise_text(0.002, 0), noise_text(0.0001), noise_text(80.3)
    ('±4.7%', '±5%', '±0.2%', '±<0.1%', '±>100%')
    """
    if not noise <= 1:
        return "±>100%"
    if 0 < noise < 0.0005:
        return "±<0.1%"
    return f"±{noise:.{1 if noise < 0.005 else digits}%}"


def interval_name(interval: MedianInterval, confidence: float, number: int, thing: str) -> str:
    """Return what an interval is: "95 % interval", or "range of 3 samples, 75 %"."""
    if not interval.is_range:
        return f"{format_percent(confidence)} interval"
    return f"range of {format_count(number, thing)}, {format_percent(interval.coverage)}"


def noise_warning(interval: MedianInterval, noise: float, requested: float, number: int, what: str) -> str:
    """Return the warning for a median or a ratio that is less precise than requested."""
    if not interval.is_range:
        return f"noisy: the {what} is precise to {noise_text(noise)}, ±{requested:.1%} was requested"
    things = format_count(number, "pair" if what == "ratio" else "sample")
    if interval.effective < number:
        worth = f"{number} dependent samples, worth {interval.effective:.1f} independent ones"
        return f"noisy: {worth}; ±{requested:.1%} was requested"
    are = "is" if number == 1 else "are"
    return f"noisy: {things} {are} too few for an interval; ±{requested:.1%} was requested"
