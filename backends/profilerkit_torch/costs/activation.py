"""Activations, softmax and dropout: which operator goes to which formula, an in-place variant to the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from profilerkit.costs import activation

from .families import register_per_element
from .registry import Cost, Shape, register_op_cost
from .sparse import count_stored

#: The formula for each element of the output, by operator.
_BY_OUTPUT: dict[str, Callable[[int], Cost]] = {
    "hardtanh relu6": activation.clamp,
    "leaky_relu _prelu_kernel rrelu_with_noise rrelu_with_noise_functional": activation.leaky_relu,
    "silu": activation.silu,
    "softplus": activation.softplus,
    "mish": activation.mish,
    "hardsigmoid": activation.hard_sigmoid,
    "hardswish": activation.hard_swish,
    "elu celu": activation.elu,
    "hardshrink": partial(activation.shrink, shifts=False),
    "softshrink": activation.shrink,
    "glu": activation.glu,
    "_masked_scale": activation.dropout,
}
#: The formula for each element of the input: it has as many as the first output, and some return a mask as well.
_BY_INPUT: dict[str, Callable[[int], Cost]] = {
    "log_sigmoid_forward": activation.log_sigmoid,
    "_fused_dropout native_dropout": activation.dropout,
    "softmax _softmax _safe_softmax _masked_softmax _nested_tensor_softmax_with_shape": activation.softmax,
    "log_softmax _log_softmax": partial(activation.softmax, log=True),
}


register_per_element(_BY_OUTPUT, argument=None)
register_per_element(_BY_INPUT)


@register_op_cost("aten::logit")
def logit(x: Shape, eps: float | None = None, *, out: Shape) -> Cost:
    """``log(x / (1 - x))``, of x between ``eps`` and ``1 - eps``."""
    return activation.logit(out.numel, clamps=eps is not None)


@register_op_cost("aten::clamp")
def clamp(x: Shape, low: Any = None, high: Any = None, *, out: Shape) -> Cost:
    """One comparison for each element and bound."""
    return activation.clamp(out.numel, (low is not None) + (high is not None))


@register_op_cost("aten::gelu")
def gelu(x: Shape, *, approximate: str = "none", out: Shape) -> Cost:
    """Return the cost by ``erf``, or by ``tanh``."""
    return activation.gelu(out.numel, approximate=approximate != "none")


def _price_sparse_softmax(log: bool, x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Like the dense operator, for each stored element."""
    return activation.softmax(count_stored(x), log=log)


def _price_sparse_softmax_gradient(log: bool, dy: Shape, y: Shape, *_: Any, out: Any) -> Cost:
    """Like the dense gradient, for each stored element."""
    return activation.softmax_gradient(count_stored(y), log=log)


for _name, _log in (("softmax", False), ("log_softmax", True)):
    register_op_cost(f"aten::_sparse_{_name}", partial(_price_sparse_softmax, _log))
    register_op_cost(f"aten::_sparse_{_name}_backward_data", partial(_price_sparse_softmax_gradient, _log))

#: The formula of the gradient for each element of the gradient from above, ``dy``.
_GRADIENTS: dict[str, Callable[[int], Cost]] = {
    "hardtanh_backward leaky_relu_backward rrelu_with_noise_backward": activation.elementary_gradient,
    "hardshrink_backward softshrink_backward": activation.elementary_gradient,
    "_prelu_kernel_backward": activation.prelu_gradient,
    "elu_backward": activation.elu_gradient,
    "softplus_backward": activation.softplus_gradient,
    "log_sigmoid_backward": activation.log_sigmoid_gradient,
    "hardsigmoid_backward": activation.hard_sigmoid_gradient,
    "hardswish_backward": activation.hard_swish_gradient,
    "silu_backward": activation.silu_gradient,
    "mish_backward": activation.mish_gradient,
    "logit_backward": activation.logit_gradient,
    "glu_backward": activation.glu_gradient,
    "_softmax_backward_data _masked_softmax_backward": activation.softmax_gradient,
    "_log_softmax_backward_data": partial(activation.softmax_gradient, log=True),
}


register_per_element(_GRADIENTS)


@register_op_cost("aten::gelu_backward")
def gelu_gradient(dy: Shape, x: Shape, *, approximate: str = "none", out: Any) -> Cost:
    """Return the cost by ``erf``, or by ``tanh``."""
    return activation.gelu_gradient(dy.numel, approximate=approximate != "none")
