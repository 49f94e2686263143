"""Formulas of losses, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import loss

from .case import Case, case


def cases() -> Iterator[Case]:
    yield case(lambda: loss.mean_squared_error(2), SUBTRACT=2, POWER=2, ADD=2)
    yield case(lambda: loss.mean_squared_error(2, False), SUBTRACT=2, POWER=2)
    yield case(lambda: loss.smooth_l1(1), SUBTRACT=1, ABSOLUTE=1, COMPARE=1, MULTIPLY=2, DIVIDE=1, ADD=1)
    yield case(lambda: loss.smooth_l1(1, False), SUBTRACT=1, ABSOLUTE=1, COMPARE=1, MULTIPLY=2, DIVIDE=1)
    yield case(lambda: loss.huber(1), SUBTRACT=1, ABSOLUTE=1, COMPARE=1, MULTIPLY=2, ADD=1)
    yield case(lambda: loss.huber(1, False), SUBTRACT=1, ABSOLUTE=1, COMPARE=1, MULTIPLY=2)
    entropy = {"MULTIPLY": 2, "LOG": 2, "SUBTRACT": 2, "NEGATE": 1}
    yield case(lambda: loss.binary_cross_entropy(1, False, False), ADD=1, **entropy)
    yield case(lambda: loss.binary_cross_entropy(1), ADD=2, **entropy)
    yield case(lambda: loss.binary_cross_entropy(1, True), ADD=2, **{**entropy, "MULTIPLY": 3})
    logits = {"SUBTRACT": 2, "MULTIPLY": 1, "EXP": 1, "LOG": 1}
    yield case(lambda: loss.binary_cross_entropy_with_logits(1, reduced=False), ADD=1, **logits)
    yield case(lambda: loss.binary_cross_entropy_with_logits(1), ADD=2, **logits)
    yield case(lambda: loss.binary_cross_entropy_with_logits(1, True), ADD=2, **{**logits, "MULTIPLY": 2})
    yield case(  # p: a product and an addition; the product with it; a difference for each of four weights
        lambda: loss.binary_cross_entropy_with_logits(1, False, 4), ADD=3, EXP=1, LOG=1, MULTIPLY=3, SUBTRACT=6
    )
    yield case(lambda: loss.negative_log_likelihood(3), ADD=3)
    yield case(lambda: loss.soft_margin(1), NEGATE=1, MULTIPLY=1, EXP=1, ADD=2, LOG=1)
    yield case(lambda: loss.soft_margin(1, False), NEGATE=1, MULTIPLY=1, EXP=1, ADD=1, LOG=1)
    yield case(lambda: loss.multi_margin(1), SUBTRACT=1, ADD=2, COMPARE=1)
    yield case(lambda: loss.multi_margin(1, True), SUBTRACT=1, ADD=2, COMPARE=1, POWER=1)
    yield case(lambda: loss.multi_margin(1, False, True), SUBTRACT=1, ADD=2, COMPARE=1, MULTIPLY=1)
    state = {"COMPARE": 2, "SUBTRACT": 3, "EXP": 3, "ADD": 4, "LOG": 1}
    yield case(lambda: loss.connectionist_temporal(2, 3), **{name: 6 * count for name, count in state.items()})
    yield case(lambda: loss.softmax_cross_entropy(1), COMPARE=1, SUBTRACT=3, EXP=1, ADD=2, MULTIPLY=1)
    yield case(lambda: loss.sparse_softmax_cross_entropy(5, 3), COMPARE=5, SUBTRACT=13, EXP=5, ADD=5, NEGATE=3)
    yield case(lambda: loss.mean_squared_error_gradient(1), SUBTRACT=1, MULTIPLY=2)
    yield case(lambda: loss.smooth_l1_gradient(1), SUBTRACT=1, COMPARE=2, MULTIPLY=1, DIVIDE=1)
    yield case(lambda: loss.huber_gradient(1), SUBTRACT=1, COMPARE=2, MULTIPLY=1)
    yield case(lambda: loss.soft_margin_gradient(1), NEGATE=1, MULTIPLY=3, EXP=1, ADD=1, DIVIDE=1)
    entropy = {"SUBTRACT": 2, "MULTIPLY": 2, "COMPARE": 1, "DIVIDE": 1}
    yield case(lambda: loss.binary_cross_entropy_gradient(1), **entropy)
    yield case(lambda: loss.binary_cross_entropy_gradient(1, True), **{**entropy, "MULTIPLY": 3})
    yield case(lambda: loss.negative_log_likelihood_gradient(3), NEGATE=3)
    yield case(lambda: loss.multi_margin_gradient(1), SUBTRACT=1, ADD=2, COMPARE=1)
    yield case(lambda: loss.multi_margin_gradient(1, True, True), SUBTRACT=1, ADD=2, COMPARE=1, MULTIPLY=3)
    # on top alpha + beta, and log(exp(a - m) + exp(b - m)) + m of the maximum m
    yield case(lambda: loss.connectionist_temporal_gradient(1, 0), COMPARE=3, SUBTRACT=5, EXP=5, ADD=7, LOG=2)
    yield case(lambda: loss.connectionist_temporal_gradient(0, 1), EXP=2, ADD=1, SUBTRACT=2, MULTIPLY=1)
