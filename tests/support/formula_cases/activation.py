"""Formulas of activations, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import Cost, activation

from .case import Case, case


def cases() -> Iterator[Case]:
    softplus = {"EXP": 2, "ADD": 2, "LOG": 2}
    yield case(lambda: activation.relu(2), COMPARE=2)
    yield case(lambda: activation.sigmoid(2), SIGMOID=2)
    yield case(lambda: activation.tanh(2), TANH=2)
    yield case(lambda: activation.clamp(2), COMPARE=4)
    yield case(lambda: activation.clamp(2, 1), COMPARE=2)
    yield case(lambda: activation.shrink(2), SUBTRACT=2, ADD=2)
    yield case(lambda: activation.shrink(2, shifts=False), ABSOLUTE=2)
    yield case(lambda: activation.leaky_relu(2), COMPARE=2, MULTIPLY=2)
    yield case(lambda: activation.silu(2), MULTIPLY=2, SIGMOID=2)
    yield case(lambda: activation.softplus(2), **softplus)
    yield case(lambda: activation.log_sigmoid(2), NEGATE=4, **softplus)
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
    yield case(lambda: activation.hard_sigmoid_gradient(2), ELEMENTARY_GRADIENT=2, DIVIDE=2)
    # dy * h; dy * x, / 6, through relu6; the sum of both
    yield case(lambda: activation.hard_swish_gradient(2), MULTIPLY=4, DIVIDE=2, ELEMENTARY_GRADIENT=2, ADD=2)
    yield case(lambda: activation.silu_gradient(2), SIGMOID=2, MULTIPLY=6, ADD=2, SUBTRACT=2)
    # t: softplus, tanh; x * sigmoid(x), * (1 - t * t); t +, dy *
    yield case(lambda: activation.mish_gradient(1), EXP=1, ADD=2, LOG=1, TANH=1, MULTIPLY=4, SIGMOID=1, SUBTRACT=1)
    # p: x / sqrt(2), erf, 1 +, 0.5 *; k * exp(-0.5 * x * x): power, times -0.5, exp, times k; x *, p +, dy *
    yield case(lambda: activation.gelu_gradient(1), DIVIDE=1, ERF=1, ADD=2, MULTIPLY=5, POWER=1, EXP=1)
    # 1 + t, times dy, 0.5 *; dy * 0.5 x, through tanh, k *; 0.044715 *, 3 *, x ** 2, *; two sums
    yield case(lambda: activation.gelu_gradient(1, approximate=True), MULTIPLY=7, ELEMENTARY_GRADIENT=1, POWER=1, ADD=2)
    yield case(lambda: activation.logit_gradient(2), SUBTRACT=2, MULTIPLY=2, DIVIDE=2)
    yield case(lambda: activation.glu_gradient(2), MULTIPLY=4, ELEMENTARY_GRADIENT=2)
    yield case(lambda: activation.softmax_gradient(2), MULTIPLY=4, ADD=2, SUBTRACT=2)
    yield case(lambda: activation.softmax_gradient(2, log=True), ADD=2, EXP=2, MULTIPLY=2, SUBTRACT=2)
    yield case(lambda: activation.add_activation(Cost.of_macs(3), 2, None), 3)
    yield case(lambda: activation.add_activation(Cost.of_macs(3), 2, "relu"), 3, COMPARE=2)
    names = {
        "relu6": {"COMPARE": 4},
        "leaky_relu": {"COMPARE": 2, "MULTIPLY": 2},
        "sigmoid": {"SIGMOID": 2},
        "tanh": {"TANH": 2},
        "tanh_with_scales": {"TANH": 2, "MULTIPLY": 4},
        "silu": {"SIGMOID": 2, "MULTIPLY": 2},
        "elu": {"COMPARE": 2, "EXP": 2, "SUBTRACT": 2, "MULTIPLY": 2},
        "gelu": {"MULTIPLY": 4, "ADD": 2, "ERF": 2, "DIVIDE": 2},
        "softplus": softplus,
        "parametric_softplus": {"MULTIPLY": 4, **softplus},
        "softsign": {"ABSOLUTE": 2, "ADD": 2, "DIVIDE": 2},
        "mish": {"TANH": 2, "MULTIPLY": 2, **softplus},
        "hard_sigmoid": {"ADD": 2, "COMPARE": 4, "DIVIDE": 2},
        "hard_swish": {"ADD": 2, "COMPARE": 4, "DIVIDE": 2, "MULTIPLY": 2},
    }
    for name, takes in names.items():
        yield case(lambda name=name: activation.add_activation(Cost(0, 0), 2, name), **takes)  # type: ignore[misc]
