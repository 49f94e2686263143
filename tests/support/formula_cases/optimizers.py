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
    yield case(lambda: optimizers.momentum_with_rate_inside(1), MULTIPLY=2, ADD=1, SUBTRACT=1)
    yield case(lambda: optimizers.momentum_with_rate_inside(1, True), MULTIPLY=4, ADD=2, SUBTRACT=1)
    yield case(lambda: optimizers.keras_momentum(1), MULTIPLY=2, SUBTRACT=1, ADD=1)
    yield case(lambda: optimizers.keras_momentum(1, True), MULTIPLY=4, SUBTRACT=2, ADD=1)
    proximal = {"MULTIPLY": 2, "SUBTRACT": 2, "SIGN": 1, "DIVIDE": 1, "ABSOLUTE": 1, "COMPARE": 1}
    yield case(lambda: optimizers.proximal_sgd(1), **proximal)
    adam = {"MULTIPLY": 6, "ADD": 3, "SQRT": 1, "DIVIDE": 1, "SUBTRACT": 1}
    yield case(lambda: optimizers.adam(1), **adam)
    yield case(lambda: optimizers.adam(1, True), COMPARE=1, **adam)
    yield case(lambda: optimizers.adam(1, False, True), **{**adam, "MULTIPLY": 8, "ADD": 4})
    yield case(lambda: optimizers.adamax(1), MULTIPLY=4, ADD=2, ABSOLUTE=1, COMPARE=1, DIVIDE=1, SUBTRACT=1)
    yield case(lambda: optimizers.adagrad(1), MULTIPLY=2, ADD=2, SQRT=1, DIVIDE=1, SUBTRACT=1)
    yield case(lambda: optimizers.adagrad(1, False), MULTIPLY=1, ADD=1, SQRT=1, DIVIDE=1, SUBTRACT=1)
    yield case(lambda: optimizers.adagrad(1, True, True), MULTIPLY=3, ADD=1, RSQRT=1, SUBTRACT=1)
    yield case(lambda: optimizers.adadelta(1), MULTIPLY=9, ADD=4, SQRT=1, RSQRT=1, SUBTRACT=1)
    yield case(lambda: optimizers.rmsprop(1), MULTIPLY=5, SUBTRACT=2, ADD=3, RSQRT=1)
    yield case(lambda: optimizers.rmsprop(1, True), MULTIPLY=7, SUBTRACT=4, ADD=4, RSQRT=1)
    ftrl = {"MULTIPLY": 3, "ADD": 3, "POWER": 3, "SUBTRACT": 3, "DIVIDE": 3, "ABSOLUTE": 1, "COMPARE": 1, "SIGN": 1}
    yield case(lambda: optimizers.ftrl(1), **ftrl)
    yield case(lambda: optimizers.ftrl(1, True), **{**ftrl, "MULTIPLY": 4, "ADD": 4})
    signed = {"MULTIPLY": 6, "ADD": 2, "SIGN": 2, "SUBTRACT": 1}
    yield case(lambda: optimizers.step_by_sign(1), **signed)
    yield case(lambda: optimizers.step_by_sign(1, True), EXP=1, **{**signed, "ADD": 1})
