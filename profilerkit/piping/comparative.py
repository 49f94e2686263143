"""How two values of a metric compare, and the one place that derives a verdict from it: better, worse, or none."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError
from .quantity import format_number

__all__ = ["Comparative", "is_shown_as_one"]


def is_shown_as_one(ratio: float) -> bool:
    """Return whether a ratio or its inverse is written as 1: a table that prints "1x" calls neither value better.

    >>> is_shown_as_one(1.0004), is_shown_as_one(0.9996), is_shown_as_one(1.0006)
    (True, True, False)
    """
    if not 0 < ratio < math.inf:
        return False
    return format_number(max(ratio, 1 / ratio)) == "1"


class Comparative(Enum):
    """How two values of one metric are compared, and which of the two is better.

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
    #: Lower is better; the difference counts: reference - value.
    DECREASE = "decrease"
    #: Which one is better is not known; the difference is shown.
    CHANGE = "change"
    #: Not comparable.
    NONE = "none"

    @classmethod
    def _missing_(cls, value: object) -> Comparative | None:
        name = value.strip().lower() if isinstance(value, str) else ""
        name = {"recip": "reciprocal"}.get(name, name)  # deeplite's name of it
        return next((member for member in cls if member.value == name), None)

    @classmethod
    def parse(cls, value: Comparative | str) -> Comparative:
        """Return the member for a member or its string, in upper or lower case."""
        try:
            return cls(value if isinstance(value, (str, cls)) else "")
        except ValueError:
            options = ", ".join(repr(member.value) for member in cls)
            raise ValueError(f"unknown comparative {shown(value)}; use Comparative or one of {options}") from None

    @classmethod
    def choose_ratio(cls, better: Any) -> Comparative:
        """Return how values compare by their ratio, if "higher" or "lower" ones are better, or None of the two."""
        return {"higher": cls.DIV, "lower": cls.RECIPROCAL, None: cls.NONE}[_direction(better)]

    @classmethod
    def choose_difference(cls, better: Any) -> Comparative:
        """Return how values compare by their difference, if "higher" or "lower" ones are better, or None: not known."""
        return {"higher": cls.DIFF, "lower": cls.DECREASE, None: cls.CHANGE}[_direction(better)]

    @property
    def is_difference(self) -> bool:
        """Whether two values compare by their difference, and not by their ratio."""
        return self in (Comparative.DIFF, Comparative.DECREASE, Comparative.CHANGE)

    def enhancement(self, reference: float, value: float) -> float | None:
        """Return how far ``value`` is better than ``reference``: None where nothing can be said.

        Nothing can be said of ratios of negative numbers: -4 is twice -2, and not more.

        >>> Comparative.DIV.enhancement(-2, -4) is None, Comparative.DIFF.enhancement(-2, -4)
        (True, -2.0)
        """
        if self in (Comparative.NONE, Comparative.CHANGE):
            return None
        reference, value = float(reference), float(value)
        if self.is_difference:
            return value - reference if self is Comparative.DIFF else reference - value
        if reference < 0 or value < 0:
            return None
        over, under = (value, reference) if self is Comparative.DIV else (reference, value)
        if under == 0:
            return None if over == 0 else math.inf
        return over / under

    def verdict(self, enhancement: float | None) -> str:
        """Return "better" or "worse" for a result of `enhancement`; an empty text if neither holds.

        A ratio that is written as 1 has no verdict.

        >>> Comparative.RECIPROCAL.verdict(0.5), Comparative.DIV.verdict(1.0004), Comparative.DIFF.verdict(0.0004)
        ('worse', '', 'better')
        """
        if enhancement is None or math.isnan(enhancement):
            return ""
        if self.is_difference:
            if enhancement == 0:
                return ""
            return "better" if enhancement > 0 else "worse"
        if is_shown_as_one(enhancement):
            return ""
        return "better" if enhancement > 1 else "worse"


def _direction(better: Any) -> str | None:
    """Return "higher", "lower" or None; raises `ArgumentError` for anything else."""
    if better is None or (isinstance(better, str) and better in ("higher", "lower")):
        return better
    raise ArgumentError(f"better={shown(better)}: give 'lower', 'higher', or None where neither is better")
