"""Intervals in words: of a median, and of a ratio of two."""

from __future__ import annotations

from .median import MedianInterval

__all__ = ["counted", "interval_name", "noise_warning", "percent_of"]


def percent_of(probability: float) -> str:
    """Return a probability as text: "93.8 %"."""
    return f"{100 * probability:.4g} %"


def counted(number: int, thing: str) -> str:
    """Return a number of things as text: "3 samples"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def interval_name(interval: MedianInterval, confidence: float, number: int, thing: str) -> str:
    """Return what an interval is: "95 % interval", or "range of 3 samples, 75 %"."""
    if not interval.is_range:
        return f"{percent_of(confidence)} interval"
    return f"range of {counted(number, thing)}, {percent_of(interval.coverage)}"


def noise_warning(interval: MedianInterval, noise: float, requested: float, number: int, what: str) -> str:
    """Return the warning for a median or a ratio that is less precise than requested."""
    if not interval.is_range:
        return f"noisy: the {what} is precise to ±{noise:.1%}, ±{requested:.1%} was requested"
    things = counted(number, "pair" if what == "ratio" else "sample")
    if interval.effective < number:
        return (
            f"noisy: {things} depend on each other and are worth {interval.effective:.1f} independent ones, too few "
            f"for an interval; ±{requested:.1%} was requested"
        )
    covered = percent_of(interval.coverage)
    return f"noisy: {things} give only a range ({covered}), ±{noise:.1%}; ±{requested:.1%} was requested"
