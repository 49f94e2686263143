"""A measurement as text: the number, the unit, how far it may be off where that is much, and the interval."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..count_text import format_count
from ..times.measurement import Measurement
from ..times.wording import format_noise
from .quantity import Quantity, format_known

__all__ = ["MeasuredText", "write_measurement"]


class MeasuredText(NamedTuple):
    """The parts of a measurement's text, so that a form can show some of them alone; as `str` all of it.

    >>> text = MeasuredText("51.9", "ms", "±4%", "[49, 53]")
    >>> print(text, "|", text.without_interval, "|", text.without_unit)
    51.9 ms ±4% [49, 53] | 51.9 ms ±4% | 51.9 ±4% [49, 53]
    """

    number: str
    unit: str
    #: Empty where the measurement is precise enough.
    noise: str
    interval: str

    def __str__(self) -> str:
        return _join(self)

    @property
    def without_interval(self) -> str:
        """The number, its unit and its noise."""
        return _join(self._replace(interval=""))

    @property
    def without_unit(self) -> str:
        """The number, its noise and its interval: for tables with a column of units."""
        return _join(self._replace(unit=""))


def _join(parts: MeasuredText) -> str:
    return " ".join(filter(None, parts))


def write_measurement(value: Measurement, shown: Quantity) -> MeasuredText:
    """Write a measurement, rounded to what is known of it, with its noise where that is too much.

    Args:
        value: The measurement, in base units.
        shown: Its number in the unit that is shown, and how many base units that unit is.
    """
    low, high = (end / shown.factor for end in value.interval)
    uncertainty = value.uncertainty * abs(shown.number) if value.is_range else (high - low) / 2
    low_text, high_text = (format_known(end, uncertainty) for end in (low, high))
    interval = f"{low_text}, {high_text}"
    if value.is_range:  # of too few samples for an interval
        ends = f"{low_text} to {high_text}, " if len(value.samples) > 1 else ""
        interval = f"{ends}{format_count(len(value.samples), 'sample')}"
    is_doubtful = (value.is_noisy or value.is_range) and 0 < value.noise < math.inf
    noise = format_noise(value.uncertainty, digits=0) if is_doubtful else ""
    return MeasuredText(format_known(shown.number, uncertainty), shown.unit, noise, f"[{interval}]")
