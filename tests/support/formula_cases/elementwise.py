"""Formulas of element-wise operators, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import elementwise

from .case import CONSTANTS, Case, case


def cases() -> Iterator[Case]:
    for name in CONSTANTS:
        if name != "FOURIER_POINT":
            yield case(lambda name=name: elementwise.elementary(name)(7), **{name: 7})  # type: ignore[misc]
    yield case(lambda: elementwise.multiply_and_add(2), ADD=2, MULTIPLY=4)
    yield case(lambda: elementwise.multiply_and_add(2, divides=True), ADD=2, MULTIPLY=2, DIVIDE=2)
    yield case(lambda: elementwise.interpolate(2), SUBTRACT=2, MULTIPLY=2, ADD=2)
    yield case(lambda: elementwise.polar(3), SINE=6, MULTIPLY=6)
    yield case(lambda: elementwise.squared_difference(3), SUBTRACT=3, POWER=3)
    yield case(lambda: elementwise.cross(3), MULTIPLY=6, SUBTRACT=3)
    yield case(lambda: elementwise.scale_and_shift(3), MULTIPLY=3, ADD=3)
    yield case(lambda: elementwise.tridiagonal_product(3), MULTIPLY=9, ADD=6)
    yield case(lambda: elementwise.sqrt_gradient(3), MULTIPLY=3, DIVIDE=3)
    yield case(lambda: elementwise.rsqrt_gradient(3), MULTIPLY=6, POWER=3)
    yield case(lambda: elementwise.reciprocal_gradient(3), NEGATE=3, MULTIPLY=6)
    yield case(lambda: elementwise.add_summands(4, 5), ADD=15)  # four summands: three additions
    yield case(lambda: elementwise.add_summands(1, 5))
    yield case(lambda: elementwise.adjust_contrast(3), ADD=6, SUBTRACT=3, MULTIPLY=3)
