"""Fourier transforms, by the customary count of the fast one: ``5 n log2(n)`` for n complex points, half for real."""

from __future__ import annotations

import math

from .cost import Cost
from .numbers import constants as c


def transform(points: int, length: int, real: bool = False) -> Cost:
    """Return the cost of the transforms of so many points in all, ``length`` points each.

    Source: Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992.
    """
    per_point = c.FOURIER_POINT / 2 if real else c.FOURIER_POINT
    return Cost(0, round(per_point * points * math.log2(length)) if length else 0)
