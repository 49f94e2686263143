"""How far a model's metric is better than the reference's, in words: "1.2x more, worse [1.1, 1.3]"."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..piping.comparative import is_shown_as_one
from ..piping.quantity import format_number
from ..results.comparison import Comparison, compute_enhancement, find_numbers
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
    pair = find_numbers(comparison, key, index)
    if pair is None:
        return _UNKNOWN
    reference, other = pair
    sign = _find_sign(reference, other)
    if reference.comparative.is_difference:
        return _write_difference(reference, other, sign)
    enhancement = compute_enhancement(reference, other)
    if enhancement is None or math.isnan(enhancement):
        return _UNKNOWN
    ratio = Ratio.of(reference.value, other.value)
    is_measured = isinstance(reference.value, Measurement) or isinstance(other.value, Measurement)
    is_noise = is_measured and not ratio.is_real
    is_known = _is_certain(ratio.value, sign) and not is_noise and not differs_by_convention(comparison, key, index)
    verdict = reference.comparative.verdict(enhancement) if is_known else ""
    return _write_ratio(ratio, sign, verdict, is_measured)


def _find_sign(reference: StatusRecord, other: StatusRecord) -> Sign:
    """Return on which side of the truth a ratio or difference to the reference lies.

    The side is unknown if the two values point to different sides.
    """
    signs = {other.sign, _OPPOSITE[reference.sign]} - {Sign.EXACT}
    if not signs:
        return Sign.EXACT
    return signs.pop() if len(signs) == 1 else Sign.BETWEEN


def _is_certain(ratio: float, sign: Sign) -> bool:
    """Return whether the truth is the ratio, or lies farther from 1 on the same side."""
    return sign in (Sign.EXACT, Sign.UPPER if ratio < 1 else Sign.LOWER)


def differs_by_convention(comparison: Comparison, key: str, index: int) -> bool:
    """Return whether counts of two frameworks differ only as their conventions may: then neither is better."""
    pair = find_numbers(comparison, key, index)
    enhancement = None if pair is None else compute_enhancement(*pair)
    reports = (comparison.reference, comparison.others[index])
    if enhancement is None or not is_foreign(*reports):
        return False
    are_counts = all(type(report[key]) is int for report in reports)
    return are_counts and enhancement != 1 and 1 / _CONVENTION < enhancement < _CONVENTION


def _write_difference(reference: StatusRecord, other: StatusRecord, sign: Sign) -> WrittenEnhancement:
    difference = float(other.value) - float(reference.value)
    if math.isnan(difference):
        return _UNKNOWN
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


def _write_ratio(ratio: Ratio, sign: Sign, verdict: str, is_measured: bool) -> WrittenEnhancement:
    """Return a ratio to the reference in words, with the sign of a bound before it.

    >>> _write_ratio(Ratio(2.0, 2.0, 2.0), Sign.EXACT, "worse", is_measured=False).text
    '2x more, worse'
    >>> _write_ratio(Ratio(0.5, 0.5, 0.5), Sign.LOWER, "", is_measured=False).text  # it may also be more
    '≤ 2x less'
    """
    value, is_less = ratio.value, ratio.value < 1
    if is_shown_as_one(value):
        is_exact = ratio.low == value == ratio.high == 1
        return WrittenEnhancement(f"{sign or ('' if is_exact else '≈ ')}the same")
    if value == 0 or math.isinf(value):  # there is no number that could be a bound
        uncertain = "" if _is_certain(value, sign) else Sign.BETWEEN
        return _add_verdict(f"{uncertain}{'up from 0' if value else 'down to 0'}", verdict)
    words = f"{format_number(max(value, 1 / value))}x {'less' if is_less else 'more'}"
    if is_measured and not ratio.is_real and not ratio.is_range:
        return WrittenEnhancement(f"≈ {words}")  # the interval contains 1: there may be more or less, or neither
    interval = f" {_write_interval(ratio, is_less)}" if is_measured else ""
    return _add_verdict(f"{_OPPOSITE[sign] if is_less else sign}{words}", verdict, interval)


def _write_interval(ratio: Ratio, is_less: bool) -> str:
    """Return the two ends of a ratio of metrics in brackets: as they are for "more", inverted for "less"."""
    if ratio.is_single:
        return "[1 sample]"
    ends = [ratio.low, ratio.high]
    if is_less:
        ends = [1 / end if end else math.inf for end in ends]
    low, high = map(format_number, sorted(ends))
    return f"[{low} to {high}]" if ratio.is_range else f"[{low}, {high}]"
