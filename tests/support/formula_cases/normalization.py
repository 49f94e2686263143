"""Formulas of normalization, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import normalization

from .case import Case, case


def cases() -> Iterator[Case]:
    whole = {"ADD": 2, "SUBTRACT": 1, "POWER": 1, "MULTIPLY": 1}
    yield case(lambda: normalization.statistics(3), ADD=6, SUBTRACT=3, POWER=3)
    yield case(lambda: normalization.normalize(1, False, False), **whole)
    yield case(lambda: normalization.normalize(1, True, False), **{**whole, "MULTIPLY": 2})
    yield case(lambda: normalization.normalize(1, False, True), **{**whole, "ADD": 3})
    yield case(lambda: normalization.normalize(2), ADD=6, SUBTRACT=2, POWER=2, MULTIPLY=4)
    yield case(lambda: normalization.normalize_with_known_statistics(3), MULTIPLY=3, ADD=3)
    yield case(lambda: normalization.scale_by_deviation(1), **{**whole, "MULTIPLY": 2})
    yield case(lambda: normalization.rms_norm(6, 2), POWER=6, ADD=8, MULTIPLY=12, RSQRT=2)
    yield case(lambda: normalization.rms_norm(6, 2, scale=False), POWER=6, ADD=8, MULTIPLY=6, RSQRT=2)
    yield case(lambda: normalization.limit_norm(3), POWER=3, ADD=3, MULTIPLY=3)
    yield case(lambda: normalization.weight_norm(6, 2), POWER=6, ADD=6, MULTIPLY=6, DIVIDE=2)
    yield case(lambda: normalization.local_response(1, 5), POWER=2, ADD=6, MULTIPLY=1, DIVIDE=1)
    # n: subtract, divide; dy * n; two sums; two differences; two products
    by_input = {"SUBTRACT": 3, "DIVIDE": 1, "MULTIPLY": 3, "ADD": 2}
    yield case(lambda: normalization.batch_norm_gradient(1), **by_input)
    yield case(lambda: normalization.batch_norm_gradient(1, True, True, False, False), **by_input)
    known = {"MULTIPLY": 2, "SUBTRACT": 1, "DIVIDE": 1, "ADD": 2}
    yield case(lambda: normalization.batch_norm_gradient(1, False), **known)
    yield case(lambda: normalization.batch_norm_gradient(1, False, True, False, False), MULTIPLY=1)
    by_scale = {"SUBTRACT": 1, "DIVIDE": 1, "MULTIPLY": 1, "ADD": 1}
    yield case(lambda: normalization.batch_norm_gradient(1, False, False, True, False), **by_scale)
    yield case(lambda: normalization.batch_norm_gradient(1, False, False, False, True), ADD=1)
    yield case(lambda: normalization.batch_norm_gradient(1, True, False, False, True), ADD=1)
    yield case(lambda: normalization.batch_norm_gradient_sums(1), SUBTRACT=1, MULTIPLY=1, ADD=2)
    yield case(lambda: normalization.batch_norm_gradient_rest(1), SUBTRACT=3, MULTIPLY=2)
    yield case(lambda: normalization.layer_norm_gradient(1, False, True, False, False), **by_input)
    yield case(lambda: normalization.layer_norm_gradient(1, True, True, False, False), **{**by_input, "MULTIPLY": 4})
    yield case(lambda: normalization.layer_norm_gradient(1, True), **{**by_input, "MULTIPLY": 5, "ADD": 4})
    yield case(lambda: normalization.layer_norm_gradient(1, True, False, True, False), **by_scale)
    yield case(lambda: normalization.layer_norm_gradient(1, True, False, False, True), ADD=1)
    # g * r; sum of g * x; s / n * 2 * x ** 1, added
    rms = {"MULTIPLY": 4, "ADD": 2, "DIVIDE": 1, "POWER": 1}
    yield case(lambda: normalization.rms_norm_gradient(1, 0, False, True, False), **rms)
    yield case(lambda: normalization.rms_norm_gradient(1, 0, True, True, False), **{**rms, "MULTIPLY": 5})
    yield case(lambda: normalization.rms_norm_gradient(0, 2, True), MULTIPLY=4, POWER=2)
    yield case(lambda: normalization.rms_norm_gradient(3, 2, True, False, True), MULTIPLY=3, ADD=3)
    yield case(lambda: normalization.rms_norm_gradient(1, 0, False), **{**rms, "MULTIPLY": 5, "ADD": 3})
    yield case(lambda: normalization.weight_norm_gradient(2, 0), MULTIPLY=6, ADD=2, SUBTRACT=2)
    yield case(lambda: normalization.weight_norm_gradient(0, 2), POWER=2, DIVIDE=6)
