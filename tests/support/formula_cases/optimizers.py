"""Formulas of optimizers, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import optimizers

from .case import Case, case


def cases() -> Iterator[Case]:
    yield case(lambda: optimizers.decay(2), MULTIPLY=2, ADD=2)
    yield case(lambda: optimizers.sgd(2), MULTIPLY=2, SUBTRACT=2)
    yield case(lambda: optimizers.momentum(1), MULTIPLY=2, ADD=1, SUBTRACT=1)
    yield case(lambda: optimizers.momentum(1, True), MULTIPLY=3, ADD=2, SUBTRACT=1)
    adam = {"MULTIPLY": 6, "ADD": 3, "SQRT": 1, "DIVIDE": 1, "SUBTRACT": 1}
    yield case(lambda: optimizers.adam(1), **adam)
    yield case(lambda: optimizers.adam(1, True), COMPARE=1, **adam)
    yield case(lambda: optimizers.adagrad(1), MULTIPLY=2, ADD=2, SQRT=1, DIVIDE=1, SUBTRACT=1)
