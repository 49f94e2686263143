"""How far a model's metric is better than the reference's, in words: "1.2x more, worse [1.1, 1.3]"."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..piping.comparative import Comparative, is_shown_as_one
from ..piping.quantity import format_number
from ..times.measurement import Measurement
from ..times.ratio import Ratio
from .bounds import TURNED, sign_of_enhancement

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import StatusRecord

__all__ = ["enhancement_in_words"]

#: Of which side of the truth a metric is that is the same in both models, in words.
_AMOUNTS = {"≥ ": "at least", "≤ ": "at most"}


def enhancement_in_words(comparison: Comparison, key: str, index: int) -> tuple[str, str]:
    """Return the enhancement of another model as text, and a mark: "better", "worse", or nothing if neither is known.

    A ratio is written with a number above 1, and with "more" or "less" of the metric itself.
    """
    difference, value = comparison.difference(key, index), comparison.enhancement(key, index)
    if difference is None:
        return "-", ""
    reference, other = (report.status(key) for report in (comparison.reference, comparison.others[index]))
    sign = sign_of_enhancement(reference, other)
    if reference.comparative.is_difference and not math.isnan(difference):
        mark = "" if sign else reference.comparative.verdict(value)
        return f"{sign}{_difference(reference, difference)}{f', {mark}' if mark else ''}", mark
    if value is None or math.isnan(value):
        return "-", ""
    ratio = None
    if isinstance(reference.value, Measurement) and isinstance(other.value, Measurement):
        ratio = Ratio.of(reference.value, other.value)
    return _ratio_in_words(value, sign, reference.comparative, ratio)


def _difference(reference: StatusRecord, value: float) -> str:
    unit = "pp" if reference.unit == "%" else reference.unit  # percentage points: the difference is not relative
    return f"{'+' if value >= 0 else '-'}{format_number(abs(value))} {unit}".rstrip()


def _ratio_in_words(value: float, sign: str, comparative: Comparative, ratio: Ratio | None) -> tuple[str, str]:
    if is_shown_as_one(value):
        return _the_same(value, sign, comparative, ratio), ""
    if value < 0:  # of a metric that has negative values: neither more nor less by a factor
        return f"{sign}{format_number(value)}x", ""
    is_worse = value < 1
    mark = "" if sign and sign != "≥ " else comparative.verdict(value)
    if sign and is_worse:
        sign = TURNED[sign]
        mark = "worse" if sign == "≥ " else ""
    more = "less" if is_worse == (comparative is Comparative.DIV) else "more"
    if math.isinf(value) or not value:  # one of the two is zero: no factor leads there
        text = f"{sign}{'down to 0' if more == 'less' else 'up from 0'}"
        return f"{text}{f', {mark}' if mark else ''}", mark
    is_uncertain = ratio is not None and not (ratio.is_real or ratio.is_range)
    mark = "" if ratio is not None and not ratio.is_real else mark
    number = format_number(1 / value if is_worse else value)
    text = f"{'≈ ' if is_uncertain else sign}{number}x {more}{f', {mark}' if mark else ''}"
    if ratio is None or is_uncertain:
        return text, mark
    ends = sorted(filter(None, (comparative.enhancement(1.0, end) for end in (ratio.low, ratio.high))))
    ends = [_inverse(end) for end in reversed(ends)] if is_worse else ends
    low, high = map(format_number, ends)
    return f"{text} [{f'{low} to {high}' if ratio.is_range else f'{low}, {high}'}]", mark


def _the_same(value: float, sign: str, comparative: Comparative, ratio: Ratio | None) -> str:
    """Return the words for a ratio that is written as 1; "≈" if it is not known to be exactly 1."""
    if sign in _AMOUNTS:
        return f"{_AMOUNTS[sign if comparative is Comparative.DIV else TURNED[sign]]} the same"
    is_exact = value == 1 and (ratio is None or ratio.low == ratio.high == 1)
    return "the same" if is_exact and not sign else f"{sign or '≈ '}the same"


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf
