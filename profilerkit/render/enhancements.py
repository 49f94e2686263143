"""How far a model's metric is better than the reference's, in words: "1.2x more, worse [1.1, 1.3]"."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..piping.comparative import Comparative, is_shown_as_one
from ..piping.quantity import format_number
from ..times.measurement import Measurement
from ..times.ratio import Ratio
from ..trace.alignment import is_foreign
from ..trace.bounds import Sign
from .bounds import TURNED, sign_of_enhancement

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import StatusRecord

__all__ = ["enhancement_in_words", "is_convention"]

#: By how much counts of equal networks differ between frameworks: one has the statistics of a normalization among its
#: parameters, another one has them as buffers.
_CONVENTION = 1.02
#: Of which side of the truth a metric is that is the same in both models, in words.
_AMOUNTS = {Sign.LOWER: "at least", Sign.UPPER: "at most"}


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
        return f"{sign}{_write_difference(reference, difference)}{f', {mark}' if mark else ''}", mark
    if value is None or math.isnan(value):
        return "-", ""
    ratio = None
    if any(isinstance(record.value, Measurement) for record in (reference, other)):
        ratio = Ratio.of(reference.value, other.value)
    has_verdict = not is_convention(comparison, key, index)
    return _write_ratio(value, sign, reference.comparative, ratio, has_verdict)


def is_convention(comparison: Comparison, key: str, index: int) -> bool:
    """Return whether a count differs by so little that what its framework counts may be why: neither is better."""
    value, reports = comparison.enhancement(key, index), (comparison.reference, comparison.others[index])
    if not is_foreign(*reports) or value is None or any(type(report[key]) is not int for report in reports):
        return False
    return value != 1 and 1 / _CONVENTION < value < _CONVENTION


def _write_difference(reference: StatusRecord, value: float) -> str:
    unit = "pp" if reference.unit == "%" else reference.unit  # percentage points: the difference is not relative
    return f"{'+' if value >= 0 else '-'}{format_number(abs(value))} {unit}".rstrip()


def _write_ratio(
    value: float, sign: Sign, comparative: Comparative, ratio: Ratio | None, has_verdict: bool = True
) -> tuple[str, str]:
    """Return a ratio as text, with its mark; ``value`` says how far a model is better, so that it is worse below 1.

    >>> _write_ratio(0.5, Sign.EXACT, Comparative.RECIPROCAL, None)  # twice the MACs
    ('2x more, worse', 'worse')
    >>> _write_ratio(0.5, Sign.LOWER, Comparative.RECIPROCAL, None)  # of a bound: it may be less, and even better
    ('≤ 2x more', '')
    """
    if is_shown_as_one(value):
        return _write_equal(value, sign, comparative, ratio), ""
    if value < 0:  # of a metric that has negative values: neither more nor less by a factor
        return f"{sign}{format_number(value)}x", ""
    is_worse = value < 1
    # What is not counted makes it even worse, or even better.
    is_certain = sign in (Sign.EXACT, Sign.UPPER if is_worse else Sign.LOWER)
    is_judged = has_verdict and is_certain and (ratio is None or ratio.is_real)
    mark = comparative.verdict(value) if is_judged else ""
    verdict = f", {mark}" if mark else ""
    sign = TURNED[sign] if is_worse else sign  # that of the number, which is above 1
    amount = "less" if is_worse == (comparative is Comparative.DIV) else "more"
    if math.isinf(value) or not value:  # one of the two is zero: no factor leads there
        return f"{sign}{'down to 0' if amount == 'less' else 'up from 0'}{verdict}", mark
    number = format_number(1 / value if is_worse else value)
    if ratio is None:
        return f"{sign}{number}x {amount}{verdict}", mark
    if not (ratio.is_real or ratio.is_range):
        return f"≈ {number}x {amount}", ""
    return f"{sign}{number}x {amount}{verdict} {_write_interval(ratio, comparative, is_worse)}", mark


def _write_interval(ratio: Ratio, comparative: Comparative, is_worse: bool) -> str:
    """Return the two ends of a ratio in brackets, as numbers above 1 where all of it is; one sample has none."""
    if ratio.is_single:
        return "[1 sample]"
    ends = [comparative.enhancement(1.0, end) or 0.0 for end in (ratio.low, ratio.high)]
    low, high = map(format_number, sorted(_invert(end) if is_worse else end for end in ends))
    return f"[{low} to {high}]" if ratio.is_range else f"[{low}, {high}]"


def _write_equal(value: float, sign: Sign, comparative: Comparative, ratio: Ratio | None) -> str:
    """Return the words for a ratio that is written as 1; "≈" if it is not known to be exactly 1."""
    if sign in _AMOUNTS:
        return f"{_AMOUNTS[sign if comparative is Comparative.DIV else TURNED[sign]]} the same"
    is_exact = value == 1 and (ratio is None or ratio.low == ratio.high == 1)
    return "the same" if is_exact and not sign else f"{sign or '≈ '}the same"


def _invert(value: float) -> float:
    return 1 / value if value else math.inf
