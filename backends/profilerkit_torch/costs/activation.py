"""Activations that take more than one operation for each element.

They count as what their definition is made of, each elementary function (exp, tanh, erf, ...) as one operation, so that
a framework which spells them out comes to the same number. ReLU, sigmoid and tanh are one operation, as every
element-wise operator that is not listed here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from .registry import Cost, Shape, register_op_cost, register_op_costs

#: Operations for each element, by operator; an in-place variant costs the same.
_PER_ELEMENT = {
    "hardtanh": 2,
    "relu6": 2,
    "leaky_relu": 2,  # compare, multiply
    "_prelu_kernel": 2,
    "threshold": 1,
    "silu": 2,  # x * sigmoid(x)
    "softplus": 3,  # log(1 + exp(x))
    "mish": 5,  # x * tanh(softplus(x))
    "hardsigmoid": 4,  # clip(x + 3, 0, 6) / 6
    "hardswish": 5,  # x * hardsigmoid(x)
    "elu": 4,  # compare, exp, subtract, multiply
    "celu": 4,
    "addcmul": 3,
    "addcdiv": 3,
    "lerp": 3,
    "floor_divide": 1,
    "rrelu_with_noise": 2,  # compare, multiply
    "polar": 4,  # cosine, sine, two products
}
#: Other names that torch has for such operators, in its kernels.
_KERNELS = {"rrelu_with_noise_functional": 2, "_add_relu": 2, "_masked_scale": 2}


def _register(name: str, operations: int) -> None:
    for variant in filter(partial(hasattr, torch.ops.aten), (name, f"{name}_")):

        @register_op_cost(f"aten::{variant}")
        def activation(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
            """Return the operations of the definition for each element."""
            return Cost(0, operations * out.numel)


for _name, _operations in {**_PER_ELEMENT, **_KERNELS}.items():
    _register(_name, _operations)


@register_op_cost("aten::clamp")
@register_op_cost("aten::clamp_")
def clamp(x: Shape, low: Any = None, high: Any = None, *, out: Shape) -> Cost:
    """One comparison for each element and bound."""
    return Cost(0, out.numel * ((low is not None) + (high is not None)))


@register_op_cost("aten::gelu")
@register_op_cost("aten::gelu_")
def gelu(x: Shape, *, approximate: str = "none", out: Shape) -> Cost:
    """``0.5 * x * (1 + erf(x / sqrt(2)))``: 5; ``0.5 * x * (1 + tanh(c * (x + 0.044715 * x**3)))``: 8."""
    return Cost(0, (5 if approximate == "none" else 8) * out.numel)


@register_op_cost("aten::glu")
def glu(x: Shape, *_: Any, out: Shape) -> Cost:
    """``a * sigmoid(b)``: two operations for each output element."""
    return Cost(0, 2 * out.numel)


@register_op_cost("aten::log_sigmoid_forward")
def log_sigmoid(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """``-log(1 + exp(-x))``: three operations for each element, as softplus."""
    return Cost(0, 3 * x.numel)


@register_op_cost("aten::_fused_dropout")
@register_op_cost("aten::native_dropout")
def dropout(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Mask and scale: two operations for each element, where a model keeps its dropout on."""
    return Cost(0, 2 * x.numel)


@register_op_costs(
    *(f"prims::bessel_{name}" for name in ("i0", "i0e", "i1", "i1e", "j0", "j1")),
    *(f"prims::{name}" for name in ("cbrt", "erf_inv", "erfcx", "ndtri", "spherical_bessel_j0", "zeta")),
)
def primitive(*_: Any, out: Shape, **__: Any) -> Cost:
    """One operation for each element, as any other elementary function."""
    return Cost(0, out.numel)
