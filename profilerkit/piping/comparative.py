"""How two values of a metric compare, and the one place that derives a verdict from it: better, worse, or none."""

from __future__ import annotations

import math
from enum import Enum

from ..error_text import shown
from .quantity import format_number

__all__ = ["Comparative", "is_shown_as_one"]


def is_shown_as_one(ratio: float) -> bool:
    """Return whether a ratio or its inverse is written as 1, as people read it: whether the two values are equal.

    >>> is_shown_as_one(1.0004), is_shown_as_one(0.9996), is_shown_as_one(1.0006)
    (True, True, False)
    """
    if not 0 < ratio < math.inf:
        return False
    return format_number(max(ratio, 1 / ratio)) == "1"


class Comparative(Enum):
    """How two values of one metric compare, and which of them is better.

    >>> Comparative("diff")
    <Comparative.DIFF: 'diff'>
    >>> Comparative.RECIPROCAL.enhancement(reference=8, value=2)
    4.0
    """

    #: Higher is better; the difference counts: value - reference.
    DIFF = "diff"
    #: Higher is better; the ratio counts: value / reference.
    DIV = "div"
    #: Lower is better; the ratio counts: reference / value.
    RECIPROCAL = "reciprocal"
    #: Not comparable.
    NONE = "none"

    @classmethod
    def _missing_(cls, value: object) -> Comparative | None:
        if isinstance(value, str):
            for member in cls:
                if value.strip().lower() in (member.value, "recip" if member is cls.RECIPROCAL else member.value):
                    return member
        return None

    @classmethod
    def parse(cls, value: Comparative | str) -> Comparative:
        """Return the member for a member or its string, in upper or lower case."""
        try:
            return cls(value if isinstance(value, (str, cls)) else "")
        except ValueError:
            options = ", ".join(repr(member.value) for member in cls)
            raise ValueError(f"unknown comparative {shown(value)}; use Comparative or one of {options}") from None

    def enhancement(self, reference: float, value: float) -> float | None:
        """Return how far ``value`` is better than ``reference``: None where nothing can be said."""
        if self is Comparative.NONE:
            return None
        if self is Comparative.DIFF:
            return float(value) - float(reference)
        over, under = (value, reference) if self is Comparative.DIV else (reference, value)
        if float(under) == 0:
            return None if float(over) == 0 else math.inf
        return float(over) / float(under)

    def verdict(self, enhancement: float | None) -> str:
        """Return "better" or "worse" for what `enhancement` returned; empty where neither can be said.

        A ratio that is written as 1 has no verdict, nor has one of a metric with negative values.

        >>> Comparative.RECIPROCAL.verdict(0.5), Comparative.DIV.verdict(1.0004), Comparative.DIFF.verdict(0.0004)
        ('worse', '', 'better')
        """
        if self is Comparative.NONE or enhancement is None or math.isnan(enhancement):
            return ""
        if self is Comparative.DIFF:
            return "better" if enhancement > 0 else "worse" if enhancement < 0 else ""
        if enhancement < 0 or is_shown_as_one(enhancement):
            return ""
        return "better" if enhancement > 1 else "worse"
