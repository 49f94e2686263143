"""Formulas of reductions, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import reduction

from .case import Case, case


def cases() -> Iterator[Case]:
    yield case(lambda: reduction.total(3), ADD=3)
    yield case(lambda: reduction.extreme(3), COMPARE=3)
    yield case(lambda: reduction.extreme(3, 2), COMPARE=6)
    yield case(lambda: reduction.multiply(3), MULTIPLY=3)
    yield case(lambda: reduction.variance(3), ADD=6, SUBTRACT=3, POWER=3)
    yield case(lambda: reduction.norm(3), POWER=3, ADD=3)
    yield case(lambda: reduction.distance(3), SUBTRACT=3, POWER=3, ADD=3)
    yield case(lambda: reduction.log_sum_exp(3), COMPARE=3, SUBTRACT=3, EXP=3, ADD=3)
    yield case(lambda: reduction.all_close(3), SUBTRACT=3, ABSOLUTE=3, COMPARE=3)
    yield case(lambda: reduction.scatter(3), ADD=3)
    yield case(lambda: reduction.scatter(3, accumulates=False))
    yield case(lambda: reduction.all_reduce(3), ADD=3)
    yield case(lambda: reduction.all_reduce(3, 5), ADD=12)
