"""How far a model's metric is better than the reference's, in words: "1.2x more, worse [1.1, 1.3]"."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..piping.quantity import format_number
from ..piping.status import Comparative
from ..times.measurement import Measurement, Ratio
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
    value = comparison.enhancement(key, index)
    if value is None or math.isnan(value):
        return "-", ""
    reference, other = (report.status(key) for report in (comparison.reference, comparison.others[index]))
    sign = sign_of_enhancement(reference, other)
    if reference.comparative is Comparative.DIFF:
        mark = "" if sign or not value else "better" if value > 0 else "worse"
        return f"{sign}{_difference(reference, value)}{f', {mark}' if mark else ''}", mark
    ratio = None
    if isinstance(reference.value, Measurement) and isinstance(other.value, Measurement):
        ratio = Ratio.of(reference.value, other.value)
    return _ratio_in_words(value, sign, reference.comparative, ratio)


def _difference(reference: StatusRecord, value: float) -> str:
    unit = "pp" if reference.unit == "%" else reference.unit  # percentage points: the difference is not relative
    return f"{'+' if value >= 0 else '-'}{format_number(abs(value))} {unit}".rstrip()


def _ratio_in_words(value: float, sign: str, comparative: Comparative, ratio: Ratio | None) -> tuple[str, str]:
    if value == 1 and sign in _AMOUNTS:
        return f"{_AMOUNTS[sign if comparative is Comparative.DIV else TURNED[sign]]} the same", ""
    if value < 0:  # of a metric that has negative values: neither more nor less by a factor
        return f"{sign}{format_number(value)}x", ""
    is_worse = value < 1
    number = _times(_inverse(value) if is_worse else value)
    mark = "" if value == 1 or (sign and sign != "≥ ") else "worse" if is_worse else "better"
    if sign and is_worse:
        sign = TURNED[sign]
        mark = "worse" if sign == "≥ " else ""
    is_uncertain = ratio is not None and not (ratio.is_real or ratio.is_range)
    mark = "" if ratio is not None and not ratio.is_real else mark
    more = "less" if is_worse == (comparative is Comparative.DIV) else "more"
    words = "the same" if value == 1 else f"{number} {more}{f', {mark}' if mark else ''}"
    text = f"{'≈ ' if is_uncertain else sign}{words}"
    if ratio is None or is_uncertain:
        return text, mark
    ends = sorted(filter(None, (comparative.enhancement(1.0, end) for end in (ratio.low, ratio.high))))
    ends = [_inverse(end) for end in reversed(ends)] if is_worse else ends
    return f"{text} [{', '.join(map(format_number, ends))}{'; range' if ratio.is_range else ''}]", mark


def _times(factor: float) -> str:
    """Return a factor from 1 on as text; one that is shown as 1 and is not 1 does not look equal."""
    if math.isinf(factor):
        return "infinitely"
    number = format_number(factor)
    return f"{number}x" if number != "1" or factor == 1 else "<1.001x"


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf
