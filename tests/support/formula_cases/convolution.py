"""Formulas of convolutions, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import convolution

from .case import Case, case


def cases() -> Iterator[Case]:
    yield case(lambda: convolution.convolution(10, 27), 270)
    yield case(lambda: convolution.convolution(10, 27, 10), 270, ADD=10)
    yield case(lambda: convolution.convolution_gradient(10, 27, 2, 10), 540, ADD=10)
    yield case(lambda: convolution.convolution_gradient(10, 27, 1), 270)
    # each of 9 samples between four neighbours: four products, three additions
    yield case(lambda: convolution.deformable_convolution(10, 27, 9, False), 270, MULTIPLY=36, ADD=27)
    yield case(lambda: convolution.deformable_convolution(10, 27, 9, True, 10), 270, MULTIPLY=45, ADD=37)
    yield case(lambda: convolution.dilation(10, 9), ADD=90, COMPARE=90)
