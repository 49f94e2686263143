"""Formulas of Fourier transforms, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import fourier

from .case import Case, case


def cases() -> Iterator[Case]:
    # 16 points in transforms of 8: three doublings each
    yield case(lambda: fourier.transform(16, 8), FOURIER_POINT=48)
    yield case(lambda: fourier.transform(16, 8, real=True), FOURIER_POINT=24)
    yield case(lambda: fourier.transform(0, 0))
    yield case(lambda: fourier.transform(3, 1))
