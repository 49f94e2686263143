"""How values are written for people: numbers with prefixes of units, and measurements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from ..count_text import format_count
from ..times.measurement import Measurement
from ..times.wording import format_noise

__all__ = [
    "PREFIXES",
    "MeasuredText",
    "Quantity",
    "Scale",
    "format_bytes",
    "format_known",
    "format_number",
    "scale_value",
    "write_measurement",
]


class Scale(Enum):
    """How a base unit grows and shrinks when it is shown."""

    NONE = "none"
    #: Powers of 1000 with SI prefixes, upwards: 4.09 GMACs.
    SI = "si"
    #: Powers of 1024 with IEC prefixes, upwards: 97.5 MiB.
    IEC = "iec"
    #: Powers of 1000 downwards from one second: 2.65 ms.
    TIME = "time"


#: The prefixes of a count without a unit.
PREFIXES = ("k", "M", "G", "T", "P", "E")
_UPWARD = {
    Scale.SI: (1000.0, ("", *PREFIXES)),
    Scale.IEC: (1024.0, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")),
}
#: The last digit shown may round up to the next prefix: 999,999 reads 1 M, not 1000 k.
_ROUNDS_UP = 1 - 5e-5
_DOWNWARD = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


@dataclass(frozen=True)
class Quantity:
    """A number with the unit it is shown in: ``Quantity(4.09, "GMACs", 1e9)``.

    ``factor`` is what one shown unit is worth in base units.
    """

    number: float
    unit: str
    factor: float

    def __str__(self) -> str:
        return f"{format_number(self.number)} {self.unit}".rstrip()


def scale_value(value: float, unit: str = "", scale: Scale = Scale.NONE) -> Quantity:
    """Scale a value in base units to the prefix that reads best.

    >>> str(scale_value(4_089_184_256, "MACs", Scale.SI))
    '4.089 GMACs'
    >>> str(scale_value(102_228_128, "B", Scale.IEC))
    '97.49 MiB'
    >>> str(scale_value(0.00265, "s", Scale.TIME))
    '2.65 ms'
    """
    factor, prefix = _factor(value, scale)
    return Quantity(value / factor, f"{prefix}{unit}", factor)


def format_bytes(size: float) -> str:
    """Write a number of bytes: "97.49 MiB"."""
    return str(scale_value(size, "B", Scale.IEC))


@lru_cache(maxsize=1024)
def _factor(value: float, scale: Scale) -> tuple[float, str]:
    size = abs(value)
    if scale is Scale.NONE or size == 0 or not math.isfinite(size):
        return 1.0, ""
    if scale is Scale.TIME:
        return next((step for step in _DOWNWARD if size >= step[0] * _ROUNDS_UP), _DOWNWARD[-1])
    base, prefixes = _UPWARD[scale]
    power = sum(size >= base**exponent * _ROUNDS_UP for exponent in range(1, len(prefixes)))
    return base**power, prefixes[power]


def format_number(number: float) -> str:
    """Write a number with four significant digits; whole numbers below 10,000 in full."""
    if math.isnan(number):
        return "nan"
    if not math.isfinite(number):
        return str(number)
    if number and not 1e-4 <= abs(number) < 1e15:
        return f"{number:.4g}"
    if float(number).is_integer() and abs(number) < 10_000:
        return str(int(number))
    if abs(number) >= 10_000:
        return f"{number:,.0f}"
    digits = max(0, 3 - math.floor(math.log10(abs(number))))
    text = f"{number:.{min(digits, 12)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_known(number: float, uncertainty: float) -> str:
    """Write a number with the digits that are known of it, to the first digit of its uncertainty.

    An uncertainty that begins with 1 keeps its second digit too. The text has no more digits than `format_number`
    gives, and at least the first of its own.

    >>> format_known(816.94, 15.6), format_known(1.513, 0.77), format_known(2.653, 0.0)
    ('817', '1.5', '2.653')
    """
    if not (number and uncertainty and math.isfinite(number) and math.isfinite(uncertainty)):
        return format_number(number)
    exponent = math.floor(math.log10(abs(uncertainty)))
    if abs(uncertainty) < 2 * 10.0**exponent:
        exponent -= 1
    first = math.floor(math.log10(abs(number)))
    return format_number(round(number, -max(min(exponent, first), first - 3)))


# Measurements ---------------------------------------------------------------------------------------------------------


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
    """Write a measurement, rounded to its precision, with its noise if that is too large.

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
