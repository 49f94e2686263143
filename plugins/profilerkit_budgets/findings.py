"""The finding of a limit: the verdict by the two ends of a value, and the value as text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from profilerkit.piping.quantity import format_number
from profilerkit.render.values import KINDS
from profilerkit.times.ratio import Ratio
from profilerkit.trace.bounds import Bounds, Sign

from .limits import Limit


class Verdict(Enum):
    """The result of one limit."""

    PASSED = "passed"
    FAILED = "failed"
    #: The limit is inside the confidence interval of a ratio, or between the two ends of a count, or samples are few.
    UNCERTAIN = "uncertain"


@dataclass(frozen=True)
class Finding:
    """One limit, checked.

    Args:
        limit: The limit.
        subject: The metric, or the path of the layer.
        verdict: Whether the limit is kept.
        detail: The value as text, with its gaps.
        responsible: The layers that cost most, as text.
        excess: How far the value is above the limit, as a share of the limit: 0.25 for 5 under ``<= 4``; negative for a
            value below it. None without a value, and for a limit of 0 or less.
        note: The report's note on the value, such as that a memory is without an optimizer's state.
    """

    limit: Limit
    subject: str
    verdict: Verdict
    detail: str
    responsible: tuple[str, ...] = ()
    excess: float | None = None
    note: str = ""


class Compared(NamedTuple):
    """What is compared with a limit: a value, or its ratio to the baseline.

    Attributes:
        value: The number.
        ends: The two ends that it lies between; None for a ratio of too few samples, which decides nothing.
        sign: The sign that stands before it.
        text: The number as text, without the sign.
    """

    value: float
    ends: Bounds | None
    sign: Sign
    text: str


_VERDICTS = {True: Verdict.PASSED, False: Verdict.FAILED, None: Verdict.UNCERTAIN}


def judge(limit: Limit, subject: str, bound: float, compared: Compared, missing: str) -> Finding:
    """Return the finding of a limit whose number in base units is ``bound``.

    The limit is uncertain if only one of the two ends keeps to it, or if there are none. ``missing`` names the
    unknown parts of the value, which it is shown with if its ends do not decide the limit.
    """
    is_kept = None
    if compared.ends is not None:
        is_kept = compared.ends.verdict(lambda end: limit.allows(end, bound), compared.value)
    detail = f"{compared.sign}{compared.text}"
    if is_kept is None and missing:
        detail += f": {KINDS[compared.sign]}, which does not decide this limit: {missing}"
    excess = compared.value / bound - 1.0 if bound > 0 else None
    return Finding(limit, subject, _VERDICTS[is_kept], detail, excess=excess)


def divide(value: float, ends: Bounds, reference: float, written: str) -> Compared:
    """Return the ratio of a count between two ends to an exact count of the baseline; ``written`` has both as text.

    It is 1 if both are 0; of an inexact count nothing is known of the ratio to 0.

    >>> divide(6, Bounds(6, 6), 4, "(6 after 4)").text, divide(6, Bounds(6, None), 4, "").ends
    ('1.5x (6 after 4)', Bounds(low=1.5, high=None))
    """
    ratio = 1.0 if value == reference else Ratio.of(reference, value).value
    if ends.sign(value) is Sign.EXACT:
        ends_of_ratio = Bounds(ratio, ratio)
    elif not reference:
        ends_of_ratio = Bounds()
    else:
        low, high = (None if end is None else end / reference for end in (ends.low, ends.high))
        ends_of_ratio = Bounds(low, high) if reference > 0 else Bounds(high, low)
    return Compared(ratio, ends_of_ratio, ends_of_ratio.sign(ratio), f"{format_number(ratio)}x {written}")
