"""How far a model's metric is better than the reference's, in words: "1.2x more, worse [1.1, 1.3]"."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..piping.comparative import Comparative, is_shown_as_one
from ..piping.outcome import Completeness
from ..piping.quantity import format_number
from ..results.comparison import Comparison
from ..results.report import StatusRecord
from ..times.measurement import Measurement
from ..times.ratio import Ratio
from ..trace.alignment import is_foreign
from ..trace.bounds import Sign

__all__ = ["WrittenEnhancement", "differs_by_convention", "write_enhancement"]

#: The factor by which counts of one network may differ between frameworks: some have the statistics of a normalization
#: among the parameters, others have them as buffers.
_CONVENTION = 1.02
#: The sign of 1 / x and of -x, by the sign of x: if x may be more, they may be less.
_OPPOSITE = {Sign.LOWER: Sign.UPPER, Sign.UPPER: Sign.LOWER, Sign.BETWEEN: Sign.BETWEEN, Sign.EXACT: Sign.EXACT}


class WrittenEnhancement(NamedTuple):
    """An enhancement as text, and its verdict, which the text contains: "better", "worse", or empty without one."""

    text: str
    verdict: str = ""


_UNKNOWN = WrittenEnhancement("-")


def write_enhancement(comparison: Comparison, key: str, index: int) -> WrittenEnhancement:
    """Return the enhancement of a metric in one of the other models.

    A ratio is written with a number above 1, and with "more" or "less" of the metric itself.
    """
    difference, enhancement = comparison.difference(key, index), comparison.enhancement(key, index)
    if difference is None or math.isnan(difference):
        return _UNKNOWN
    reference, other = comparison.reference.status(key), comparison.others[index].status(key)
    sign = _find_sign(reference, other)
    if reference.comparative.is_difference:
        return _write_difference(reference, other, sign)
    if enhancement is None or math.isnan(enhancement):
        return _UNKNOWN
    is_measured = isinstance(reference.value, Measurement) or isinstance(other.value, Measurement)
    return _Factor(
        enhancement,
        reference.comparative,
        sign,
        measured=Ratio.of(reference.value, other.value) if is_measured else None,
        differs_by_convention=differs_by_convention(comparison, key, index),
    ).write()


def _find_sign(reference: StatusRecord, other: StatusRecord) -> Sign:
    """Return on which side of the truth an enhancement lies; it is exact if neither of its two values is partial.

    If the two values point to different sides, or a partial value has no bound, the side is unknown.
    """
    if all(record.completeness is not Completeness.PARTIAL for record in (reference, other)):
        return Sign.EXACT
    if reference.comparative is Comparative.RECIPROCAL:  # reference / other
        signs = {reference.sign, _OPPOSITE[other.sign]}
    else:  # other / reference, or other - reference
        signs = {other.sign, _OPPOSITE[reference.sign]}
    signs.discard(Sign.EXACT)
    return signs.pop() if len(signs) == 1 else Sign.BETWEEN


def differs_by_convention(comparison: Comparison, key: str, index: int) -> bool:
    """Return whether counts of two frameworks differ only as their conventions may: then neither is better."""
    enhancement = comparison.enhancement(key, index)
    reports = (comparison.reference, comparison.others[index])
    if enhancement is None or not is_foreign(*reports):
        return False
    are_counts = all(type(report[key]) is int for report in reports)
    return are_counts and enhancement != 1 and 1 / _CONVENTION < enhancement < _CONVENTION


def _write_difference(reference: StatusRecord, other: StatusRecord, sign: Sign) -> WrittenEnhancement:
    difference = float(other.value) - float(reference.value)
    unit = "pp" if reference.unit == "%" else reference.unit  # percentage points: the difference is not relative
    text = f"{sign}{'+' if difference >= 0 else '-'}{format_number(abs(difference))} {unit}".rstrip()
    if sign is not Sign.EXACT or _may_be_noise(reference.value, other.value):
        return WrittenEnhancement(text)
    comparative = reference.comparative
    return _add_verdict(text, comparative.verdict(comparative.enhancement(reference.value, other.value)))


def _may_be_noise(*values: Any) -> bool:
    """Return whether a difference of two values, measured or exact, may be none.

    It may be where their intervals meet, and where a measurement has too few samples for an interval. Samples may be
    negative here, which a `Ratio` cannot have.
    """
    if any(isinstance(value, Measurement) and value.is_range for value in values):
        return True
    intervals = [value.interval if isinstance(value, Measurement) else (value, value) for value in values]
    (low, high), (other_low, other_high) = intervals
    return any(isinstance(value, Measurement) for value in values) and low <= other_high and other_low <= high


def _add_verdict(text: str, verdict: str, interval: str = "") -> WrittenEnhancement:
    words = f"{text}, {verdict}" if verdict else text
    return WrittenEnhancement(f"{words}{interval}", verdict)


@dataclass(frozen=True)
class _Factor:
    """How many times better a metric is than the reference's.

    >>> _Factor(0.5, Comparative.RECIPROCAL).write()  # twice the MACs
    WrittenEnhancement(text='2x more, worse', verdict='worse')
    >>> _Factor(0.5, Comparative.RECIPROCAL, Sign.LOWER).write()  # of a bound: it may be less, and even better
    WrittenEnhancement(text='≤ 2x more', verdict='')

    Attributes:
        value: The factor. Below 1 the metric is worse.
        comparative: Whether more or less of the metric is better.
        sign: On which side of the truth the factor lies, if a value is partial.
        measured: The ratio of the metric to the reference's, with its interval; None if neither was measured.
        differs_by_convention: Whether it has no verdict; see the function of this name.
    """

    value: float
    comparative: Comparative
    sign: Sign = Sign.EXACT
    measured: Ratio | None = None
    differs_by_convention: bool = False

    def write(self) -> WrittenEnhancement:
        if is_shown_as_one(self.value):
            return WrittenEnhancement(self._write_equal())
        if math.isinf(self.value) or self.value == 0:  # one of the two metrics is zero
            sign = Sign.EXACT if self._is_certain() else Sign.BETWEEN  # there is no number that could be a bound
            return _add_verdict(f"{sign}{'down to 0' if self._is_less else 'up from 0'}", self._find_verdict())
        number = max(self.value, 1 / self.value)
        words = f"{format_number(number)}x {'less' if self._is_less else 'more'}"
        sign = self.sign if self.value > 1 else _OPPOSITE[self.sign]  # of the written number
        if self.measured is None:
            return _add_verdict(f"{sign}{words}", self._find_verdict())
        if not self.measured.is_real and not self.measured.is_range:
            return WrittenEnhancement(f"≈ {words}")  # the interval contains 1: there may be more or less, or neither
        interval = _write_interval(self.measured, self._is_less)
        return _add_verdict(f"{sign}{words}", self._find_verdict(), f" {interval}")

    @property
    def _is_less(self) -> bool:
        """Whether there is less of the metric itself than in the reference."""
        return (self.value < 1) == (self.comparative is Comparative.DIV)

    def _find_verdict(self) -> str:
        """Return "better" or "worse"; empty if the truth may be the other one."""
        is_noise = self.measured is not None and not self.measured.is_real
        if is_noise or self.differs_by_convention or not self._is_certain():
            return ""
        return self.comparative.verdict(self.value)

    def _is_certain(self) -> bool:
        """Return whether the truth is the factor, or lies farther from 1 on the same side."""
        return self.sign in (Sign.EXACT, Sign.UPPER if self.value < 1 else Sign.LOWER)

    def _write_equal(self) -> str:
        """Return the words for a factor that is written as 1; "≈" if it is not known to be exactly 1."""
        # The words are about the metric, the sign is about the factor, which falls with the metric if less is better.
        sign = self.sign if self.comparative is Comparative.DIV else _OPPOSITE[self.sign]
        if sign is Sign.EXACT:
            is_one = self.value == 1 and (self.measured is None or self.measured.low == self.measured.high == 1)
            return "the same" if is_one else "≈ the same"
        words = {Sign.LOWER: "at least ", Sign.UPPER: "at most ", Sign.BETWEEN: Sign.BETWEEN.value}
        return f"{words[sign]}the same"


def _write_interval(ratio: Ratio, is_less: bool) -> str:
    """Return the two ends of a ratio of metrics in brackets: as they are for "more", inverted for "less"."""
    if ratio.is_single:
        return "[1 sample]"
    ends = [ratio.low, ratio.high]
    if is_less:
        ends = [1 / end if end else math.inf for end in ends]
    low, high = map(format_number, sorted(ends))
    return f"[{low} to {high}]" if ratio.is_range else f"[{low}, {high}]"
