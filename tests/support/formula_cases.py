"""Every formula of `profilerkit.costs`, called with small numbers, and what it must return, worked out by hand.

A case says how many multiply-accumulates there are, and how many of each elementary function besides. So a test need
not know what these count as, and a formula that takes an addition for a product is found although both count as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from profilerkit.costs import (
    Cost,
    activation,
    attention,
    convention,
    convolution,
    detection,
    elementwise,
    fourier,
    loss,
    matmul,
    normalization,
    optimizers,
    pooling,
    quantization,
    recurrent,
    reduction,
)

__all__ = ["CASES", "Case", "agrees", "distinct_constants"]

CONSTANTS = [name for name in vars(convention) if name.isupper()]
#: More than any formula takes of one elementary function in a case.
BASE = 10**9


@dataclass(frozen=True)
class Case:
    """A call of a formula, its multiply-accumulates, and the elementary functions that it takes besides."""

    call: Callable[[], Cost]
    macs: int = 0
    takes: Mapping[str, int] = field(default_factory=dict)


def case(call: Callable[[], Cost], macs: int = 0, **takes: int) -> Case:
    return Case(call, macs, takes)


def agrees(each: Case) -> bool:
    """Say whether a formula returns what its case says, whatever the constants are at the time."""
    value = vars(convention)
    counts = Counter(each.takes)
    counts.update({"MULTIPLY": each.macs, "ADD": each.macs})
    flops = sum(value[name] * count for name, count in counts.items())
    try:
        return bool(each.call() == (each.macs, flops))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False


def distinct_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every elementary function a value of its own, so that no two sums of them are the same number."""
    for place, name in enumerate(CONSTANTS):
        monkeypatch.setattr(convention, name, 4 if name == "FOURIER_POINT" else BASE**place)


def _elementwise() -> Iterator[Case]:
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
    yield case(lambda: elementwise.sum_of(4, 5), ADD=15)  # four summands: three additions
    yield case(lambda: elementwise.sum_of(1, 5))
    yield case(lambda: elementwise.adjust_contrast(3), ADD=6, SUBTRACT=3, MULTIPLY=3)


def _activation() -> Iterator[Case]:
    softplus = {"EXP": 2, "ADD": 2, "LOG": 2}
    yield case(lambda: activation.relu(2), COMPARE=2)
    yield case(lambda: activation.sigmoid(2), SIGMOID=2)
    yield case(lambda: activation.tanh(2), TANH=2)
    yield case(lambda: activation.clamp(2), COMPARE=4)
    yield case(lambda: activation.clamp(2, 1), COMPARE=2)
    yield case(lambda: activation.leaky_relu(2), COMPARE=2, MULTIPLY=2)
    yield case(lambda: activation.silu(2), MULTIPLY=2, SIGMOID=2)
    yield case(lambda: activation.softplus(2), **softplus)
    yield case(lambda: activation.softsign(2), ABSOLUTE=2, ADD=2, DIVIDE=2)
    yield case(lambda: activation.mish(2), TANH=2, MULTIPLY=2, **softplus)
    yield case(lambda: activation.hard_sigmoid(2), ADD=2, COMPARE=4, DIVIDE=2)
    yield case(lambda: activation.hard_swish(2), ADD=2, COMPARE=4, DIVIDE=2, MULTIPLY=2)
    yield case(lambda: activation.elu(2), COMPARE=2, EXP=2, SUBTRACT=2, MULTIPLY=2)
    yield case(lambda: activation.gelu(2), MULTIPLY=4, ADD=2, ERF=2, DIVIDE=2)
    # 0.5 *, (1 +), *, tanh; k *, (x +), 0.044715 *, x ** 3
    yield case(lambda: activation.gelu(2, approximate=True), MULTIPLY=8, ADD=4, TANH=2, POWER=2)
    yield case(lambda: activation.glu(2), MULTIPLY=2, SIGMOID=2)
    yield case(lambda: activation.dropout(2), MULTIPLY=4)
    yield case(lambda: activation.softmax(2), COMPARE=2, SUBTRACT=2, EXP=2, ADD=2, DIVIDE=2)
    yield case(lambda: activation.softmax(2, log=True), COMPARE=2, SUBTRACT=4, EXP=2, ADD=2)
    yield case(lambda: activation.elementary_gradient(2), ELEMENTARY_GRADIENT=2)
    yield case(lambda: activation.prelu_gradient(2), MULTIPLY=4)
    yield case(lambda: activation.elu_gradient(2), ADD=2, MULTIPLY=2)
    yield case(lambda: activation.softplus_gradient(2), SIGMOID=2, MULTIPLY=2)
    yield case(lambda: activation.softsign_gradient(2), ABSOLUTE=2, ADD=2, POWER=2, DIVIDE=2)
    yield case(lambda: activation.log_sigmoid_gradient(2), NEGATE=2, SIGMOID=2, MULTIPLY=2)
    yield case(lambda: activation.hard_sigmoid_gradient(2), COMPARE=2, DIVIDE=2)
    yield case(lambda: activation.hard_swish_gradient(2), COMPARE=4, DIVIDE=2, ADD=2, MULTIPLY=2)
    yield case(lambda: activation.silu_gradient(2), SIGMOID=2, MULTIPLY=6, ADD=2, SUBTRACT=2)
    # t: softplus, tanh; x * sigmoid(x), * (1 - t * t); t +, dy *
    yield case(lambda: activation.mish_gradient(1), EXP=1, ADD=2, LOG=1, TANH=1, MULTIPLY=4, SIGMOID=1, SUBTRACT=1)
    # p: x / sqrt(2), erf, 1 +, 0.5 *; k * exp(-0.5 * x * x): power, times -0.5, exp, times k; x *, p +, dy *
    yield case(lambda: activation.gelu_gradient(1), DIVIDE=1, ERF=1, ADD=2, MULTIPLY=5, POWER=1, EXP=1)
    yield case(lambda: activation.logit_gradient(2), SUBTRACT=2, MULTIPLY=2, DIVIDE=2)
    yield case(lambda: activation.glu_gradient(2), MULTIPLY=4, ELEMENTARY_GRADIENT=2)
    yield case(lambda: activation.softmax_gradient(2), MULTIPLY=4, ADD=2, SUBTRACT=2)
    yield case(lambda: activation.softmax_gradient(2, log=True), ADD=2, EXP=2, MULTIPLY=2, SUBTRACT=2)
    yield case(lambda: activation.activated(Cost.of_macs(3), 2, None), 3)
    yield case(lambda: activation.activated(Cost.of_macs(3), 2, "relu"), 3, COMPARE=2)
    names = {
        "relu6": {"COMPARE": 4},
        "leaky_relu": {"COMPARE": 2, "MULTIPLY": 2},
        "sigmoid": {"SIGMOID": 2},
        "tanh": {"TANH": 2},
        "silu": {"SIGMOID": 2, "MULTIPLY": 2},
        "elu": {"COMPARE": 2, "EXP": 2, "SUBTRACT": 2, "MULTIPLY": 2},
        "gelu": {"MULTIPLY": 4, "ADD": 2, "ERF": 2, "DIVIDE": 2},
        "mish": {"TANH": 2, "MULTIPLY": 2, **softplus},
        "hard_swish": {"ADD": 2, "COMPARE": 4, "DIVIDE": 2, "MULTIPLY": 2},
    }
    for name, takes in names.items():
        yield case(lambda name=name: activation.activated(Cost(0, 0), 2, name), **takes)  # type: ignore[misc]


def _matmul() -> Iterator[Case]:
    yield case(lambda: matmul.product(24), 24)
    yield case(lambda: matmul.product(24, 8), 24, ADD=8)
    yield case(lambda: matmul.matrix_product(2, 3, 5), 30)
    yield case(lambda: matmul.matrix_product(2, 3, 5, has_bias=True, batch=7), 210, ADD=70)
    yield case(lambda: matmul.product_gradient(24, 2, 8), 48, ADD=8)
    yield case(lambda: matmul.product_gradient(24, 1), 24)
    yield case(lambda: matmul.trilinear(24), 24, MULTIPLY=24)
    yield case(lambda: matmul.einsum(24, 2, sums=False), 24)
    yield case(lambda: matmul.einsum(24, 1, sums=True), ADD=24)
    yield case(lambda: matmul.einsum(24, 1, sums=False))
    yield case(lambda: matmul.distances(6, 3), SUBTRACT=18, POWER=18, ADD=18)
    yield case(lambda: matmul.distances_gradient(6, 3), SUBTRACT=18, MULTIPLY=18, ADD=18, DIVIDE=6)
    yield case(lambda: matmul.distances_gradient(6, 3, True), SUBTRACT=36, MULTIPLY=18, ADD=18, DIVIDE=6)


def _convolution() -> Iterator[Case]:
    yield case(lambda: convolution.convolution(10, 27), 270)
    yield case(lambda: convolution.convolution(10, 27, 10), 270, ADD=10)
    yield case(lambda: convolution.convolution_gradient(10, 27, 2, 10), 540, ADD=10)
    yield case(lambda: convolution.convolution_gradient(10, 27, 1), 270)
    # each of 9 samples between four neighbours: four products, three additions
    yield case(lambda: convolution.deformable_convolution(10, 27, 9, False), 270, MULTIPLY=36, ADD=27)
    yield case(lambda: convolution.deformable_convolution(10, 27, 9, True, 10), 270, MULTIPLY=45, ADD=37)
    yield case(lambda: convolution.dilation(10, 9), ADD=90, COMPARE=90)


def _attention() -> Iterator[Case]:
    def scores(count: int) -> dict[str, int]:
        return {"COMPARE": count, "SUBTRACT": count, "EXP": count, "DIVIDE": count}

    yield case(lambda: attention.attention(6, 8, 5), 78, MULTIPLY=6, ADD=6, **scores(6))
    yield case(lambda: attention.attention(6, 8, 5, has_mask=True), 78, MULTIPLY=6, ADD=12, **scores(6))
    # softmax's gradient: two products, an addition, a difference; the scale
    yield case(lambda: attention.attention_gradient(6, 8, 5), 156, MULTIPLY=18, ADD=6, SUBTRACT=6)
    # 2 samples, 3 queries, 5 keys, 4 wide, 2 heads: rows 2 * 2 * (3 + 5) = 32, scores 2 * 2 * 3 * 5 = 60,
    # macs 32 * 4 * 4 + 60 * (2 + 2)
    macs = 32 * 16 + 60 * 4
    yield case(lambda: attention.multi_head_attention(2, 3, 5, 4, 2), macs, MULTIPLY=60, ADD=60 + 32 * 4, **scores(60))
    yield case(
        lambda: attention.multi_head_attention(2, 3, 5, 4, 2, has_mask=True),
        macs,
        MULTIPLY=60,
        ADD=60 + 60 + 32 * 4,
        **scores(60),
    )
    yield case(  # the queries' 2 * 3 * 4 elements are scaled in place of the scores
        lambda: attention.multi_head_attention(2, 3, 5, 4, 2, need_weights=True),
        macs,
        MULTIPLY=24,
        ADD=60 + 32 * 4,
        **scores(60),
    )
    yield case(
        lambda: attention.multi_head_attention(2, 3, 5, 4, 2, need_weights=True, average_weights=True),
        macs,
        MULTIPLY=24,
        ADD=60 + 60 + 32 * 4,
        **scores(60),
    )
    # a layer of 6 wide (2 samples of 3, 4 wide, 2 heads, 10 hidden): rows 2 * 2 * 6 = 24, scores 2 * 2 * 3 * 3 = 36,
    # inner 6 * 10 = 60, x has 24 elements; two norms of 24 elements: of 3 additions, a difference, a power, 2 products
    macs = 24 * 16 + 36 * 4 + 2 * 60 * 4
    additions = 36 + 24 * 4 + 60 + 24 + 48 * 3 + 48
    for use_gelu, further in ((False, {"COMPARE": 60}), (True, {"MULTIPLY": 120, "ADD": 60, "ERF": 60, "DIVIDE": 60})):
        takes = Counter({"MULTIPLY": 36 + 48 * 2, "ADD": additions, "SUBTRACT": 48, "POWER": 48})
        takes.update(scores(36))
        takes.update(further)
        yield case(
            lambda gelu=use_gelu: attention.transformer_encoder_layer(2, 3, 4, 2, 10, use_gelu=gelu),  # type: ignore[misc]
            macs,
            **takes,
        )
    masked = Counter({"MULTIPLY": 36 + 48 * 2, "ADD": additions + 36, "SUBTRACT": 48, "POWER": 48, "COMPARE": 60})
    masked.update(scores(36))
    yield case(lambda: attention.transformer_encoder_layer(2, 3, 4, 2, 10, has_mask=True), macs, **masked)
    yield case(lambda: attention.projected_queries(12), ADD=12, MULTIPLY=4)


def _recurrent() -> Iterator[Case]:
    # each unit at each position
    lstm = {"ADD": 5, "SIGMOID": 3, "TANH": 2, "MULTIPLY": 3}
    gru = {"ADD": 4, "SIGMOID": 2, "TANH": 1, "MULTIPLY": 3, "SUBTRACT": 1}
    kinds = {"lstm": lstm, "gru": gru, "rnn_tanh": {"ADD": 1, "TANH": 1}, "rnn_relu": {"ADD": 1, "COMPARE": 1}}
    for kind, takes in kinds.items():
        counts = Counter({name: 3 * 4 * count for name, count in takes.items()})
        counts["ADD"] += 3 * 7
        yield case(lambda kind=kind: recurrent.layers(kind, 3, 11, 7, 4), 33, **counts)  # type: ignore[misc]
    cell = {**gru, "MULTIPLY": 2}
    yield case(lambda: recurrent.layers("gru", 1, 11, 0, 1, cell=True), 11, **cell)
    yield case(lambda: recurrent.layers("lstm", 1, 11, 0, 1, cell=True), 11, **lstm)
    gradients = {
        "lstm": {"ELEMENTARY_GRADIENT": 5, "MULTIPLY": 6, "ADD": 2},
        "gru": {"ELEMENTARY_GRADIENT": 3, "MULTIPLY": 4, "NEGATE": 1, "ADD": 3},
        "rnn_tanh": {"ELEMENTARY_GRADIENT": 1, "ADD": 1},
        "rnn_relu": {"ELEMENTARY_GRADIENT": 1, "ADD": 1},
    }
    for kind, takes in gradients.items():
        counts = Counter({name: 3 * 4 * count for name, count in takes.items()})
        yield case(
            lambda kind=kind: recurrent.layers_gradient(kind, 3, 11, 7, 4, by_weights=False, unwanted_macs=5),  # type: ignore[misc]
            33 - 5,
            **counts,
        )
        counts["ADD"] += 3 * 7
        yield case(lambda kind=kind: recurrent.layers_gradient(kind, 3, 11, 7, 4), 66, **counts)  # type: ignore[misc]
    yield case(lambda: recurrent.fused_cell("gru", 1, 5), **{**cell, "ADD": cell["ADD"] + 5})
    yield case(lambda: recurrent.lstm_cell_gradient(2, 8, False), MULTIPLY=12, ELEMENTARY_GRADIENT=10, ADD=8)
    yield case(lambda: recurrent.lstm_cell_gradient(2, 8, True), MULTIPLY=12, ELEMENTARY_GRADIENT=10, ADD=10)
    yield case(lambda: recurrent.gru_cell_gradient(2, False), MULTIPLY=8, NEGATE=2, ADD=2, ELEMENTARY_GRADIENT=6)
    yield case(lambda: recurrent.gru_cell_gradient(2, True), MULTIPLY=8, NEGATE=2, ADD=14, ELEMENTARY_GRADIENT=6)
    yield case(lambda: recurrent.joined_lstm(1, 11, 1, False, False), 11, **lstm)
    yield case(lambda: recurrent.joined_lstm(2, 11, 3, False, True), 22, ADD=36, SIGMOID=18, TANH=12, MULTIPLY=18)
    yield case(lambda: recurrent.joined_lstm(1, 11, 1, True, False), 11, **{**lstm, "ADD": 8, "MULTIPLY": 6})


def _pooling() -> Iterator[Case]:
    yield case(lambda: pooling.pool(5, 4, average=True), ADD=20)
    yield case(lambda: pooling.pool(5, 4, average=False), COMPARE=20)
    # 5 to 3: windows 0-2, 1-4, 3-5 of 2, 3 and 2; 4 to 2: 2 and 2
    yield case(lambda: pooling.pool(pooling.adaptive_windows([(5, 3), (4, 2)]), 1, True), ADD=7 * 4)
    yield case(lambda: pooling.pool_gradient(7), ADD=7)
    yield case(lambda: pooling.resample(3, 4), MULTIPLY=12, ADD=9)
    yield case(lambda: pooling.resample(3, 2), MULTIPLY=6, ADD=3)
    yield case(lambda: pooling.resample(3, 1))
    yield case(lambda: pooling.resample_gradient(3, 4), MULTIPLY=12, ADD=12)
    yield case(lambda: pooling.resample_gradient(3, 2), MULTIPLY=6, ADD=6)
    yield case(lambda: pooling.resample_gradient(3, 1), ADD=3)
    yield case(lambda: Cost(0, pooling.smooth_reach(2, 10, 4) * convention.ADD), ADD=5)  # 2 * 2.5
    yield case(lambda: Cost(0, pooling.smooth_reach(2, 10, 3) * convention.ADD), ADD=7)  # 2 * 3.33, rounded up
    yield case(lambda: Cost(0, pooling.smooth_reach(2, 4, 10) * convention.ADD), ADD=2)
    yield case(lambda: pooling.smooth_resample(5, 3, 7, 2), MULTIPLY=5 * 3 + 7 * 2, ADD=5 * 2 + 7)
    yield case(lambda: pooling.smooth_resample_gradient(7, 2, 5, 3), MULTIPLY=14 + 15, ADD=14 + 15)
    yield case(lambda: pooling.grid_sample_gradient(3, 1, 2, True, True), ADD=3)
    yield case(lambda: pooling.grid_sample_gradient(3, 1, 2, False, True))
    yield case(lambda: pooling.grid_sample_gradient(3, 4, 2, True, False), MULTIPLY=12, ADD=12)
    yield case(lambda: pooling.grid_sample_gradient(3, 4, 2, False, True), MULTIPLY=12 * 4, ADD=12 * 2)
    yield case(lambda: pooling.grid_sample_gradient(3, 8, 3, True, True), MULTIPLY=24 * 7, ADD=24 * 4)
    yield case(lambda: pooling.affine_grid(6, 3), 18)
    yield case(lambda: pooling.projective_transform(2), MULTIPLY=12, ADD=12, DIVIDE=4)
    yield case(lambda: pooling.embedding_bag(6), ADD=6)
    yield case(lambda: pooling.embedding_bag(6, weighted=True), ADD=6, MULTIPLY=6)
    yield case(lambda: pooling.embedding_bag(6, maximum=True), COMPARE=6)
    yield case(lambda: pooling.embedding_gradient(6), ADD=6)
    yield case(lambda: pooling.embedding_gradient(6, scaled=True), ADD=6, DIVIDE=6)
    yield case(lambda: pooling.embedding_gradient(6, weighted=True), ADD=6, MULTIPLY=6)
    yield case(lambda: pooling.bag_weights_gradient(6), MULTIPLY=6, ADD=6)


def _reduction() -> Iterator[Case]:
    yield case(lambda: reduction.total(3), ADD=3)
    yield case(lambda: reduction.extreme(3), COMPARE=3)
    yield case(lambda: reduction.extreme(3, 2), COMPARE=6)
    yield case(lambda: reduction.multiplied(3), MULTIPLY=3)
    yield case(lambda: reduction.variance(3), ADD=6, SUBTRACT=3, POWER=3)
    yield case(lambda: reduction.norm(3), POWER=3, ADD=3)
    yield case(lambda: reduction.distance(3), SUBTRACT=3, POWER=3, ADD=3)
    yield case(lambda: reduction.log_sum_exp(3), COMPARE=3, SUBTRACT=3, EXP=3, ADD=3)
    yield case(lambda: reduction.all_close(3), SUBTRACT=3, ABSOLUTE=3, COMPARE=3)
    yield case(lambda: reduction.scattered(3), ADD=3)
    yield case(lambda: reduction.scattered(3, accumulates=False))
    yield case(lambda: reduction.all_reduce(3), ADD=3)
    yield case(lambda: reduction.all_reduce(3, 5), ADD=12)


def _normalization() -> Iterator[Case]:
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


def _loss() -> Iterator[Case]:
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


def _quantization() -> Iterator[Case]:
    there = {"DIVIDE": 1, "ROUND": 1, "COMPARE": 2}
    back = {"SUBTRACT": 1, "MULTIPLY": 1}
    yield case(lambda: quantization.quantize(1), **there)
    yield case(lambda: quantization.quantize(1, finds_range=True), **{**there, "COMPARE": 4})
    yield case(lambda: quantization.dequantize(1), **back)
    yield case(lambda: quantization.find_range(3), COMPARE=6)
    yield case(lambda: quantization.fake_quantize(1), **there, **back)
    yield case(lambda: quantization.fake_quantize(1, True), **{**there, "COMPARE": 4}, **back)
    yield case(lambda: quantization.fake_quantize_gradient(2), ELEMENTARY_GRADIENT=2)
    yield case(lambda: quantization.fake_quantize_gradient(2, True), ELEMENTARY_GRADIENT=2, ADD=4)
    learned = {"DIVIDE": 1, "ADD": 3, "ROUND": 1, "COMPARE": 2, "ELEMENTARY_GRADIENT": 1, "SUBTRACT": 1, "MULTIPLY": 2}
    yield case(lambda: quantization.learned_quantization_gradient(1), **learned)
    yield case(lambda: quantization.dequantize_and_add(1), ADD=1, **back)


def _optimizers() -> Iterator[Case]:
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
    yield case(lambda: optimizers.signed(1), **signed)
    yield case(lambda: optimizers.signed(1, True), EXP=1, **{**signed, "ADD": 1})


def _fourier() -> Iterator[Case]:
    # 16 points in transforms of 8: three doublings each
    yield case(lambda: fourier.transform(16, 8), FOURIER_POINT=48)
    yield case(lambda: fourier.transform(16, 8, real=True), FOURIER_POINT=24)
    yield case(lambda: fourier.transform(0, 0))
    yield case(lambda: fourier.transform(3, 1))


def _detection() -> Iterator[Case]:
    # four boxes: six pairs of 6 comparisons, 3 differences, 1 product, 1 sum, 1 ratio; four areas
    yield case(
        lambda: detection.non_maximum_suppression(4), COMPARE=36, SUBTRACT=18 + 8, MULTIPLY=6 + 4, ADD=6, DIVIDE=6
    )
    yield case(lambda: detection.roi_align(3, 4), MULTIPLY=48, ADD=12 * 4)


CASES: dict[str, list[Case]] = {
    "elementwise": list(_elementwise()),
    "activation": list(_activation()),
    "matmul": list(_matmul()),
    "convolution": list(_convolution()),
    "attention": list(_attention()),
    "recurrent": list(_recurrent()),
    "pooling": list(_pooling()),
    "reduction": list(_reduction()),
    "normalization": list(_normalization()),
    "loss": list(_loss()),
    "quantization": list(_quantization()),
    "optimizers": list(_optimizers()),
    "fourier": list(_fourier()),
    "detection": list(_detection()),
}
