"""Gradients of activations, softmax and losses, as autograd's own operators compute them.

They count as what the derivative is made of, and the product with the gradient that comes from above. What the forward
pass has computed already is not counted again, but where torch computes it again on every device (SiLU, Mish, GELU).
ReLU, sigmoid and tanh, whose gradients torch knows as element-wise, are one operation: so they are in every backend.
"""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost
from .shapes import SparseShape

#: Operations for each element of the gradient from above, ``dy``.
_PER_ELEMENT = {
    "hardtanh_backward": 1,  # ReLU6 too: pass or not, as ReLU
    "leaky_relu_backward": 1,
    "rrelu_with_noise_backward": 1,
    "hardshrink_backward": 1,
    "softshrink_backward": 1,
    "_prelu_kernel_backward": 2,  # dy * weight, dy * x
    "elu_backward": 2,  # dy * (y + alpha); CELU and SELU too
    "softplus_backward": 2,  # dy * sigmoid(x)
    "log_sigmoid_backward": 3,  # dy * sigmoid(-x)
    "hardsigmoid_backward": 2,  # pass or not, dy / 6
    "hardswish_backward": 5,  # two comparisons, dy * (x / 3 + 0.5)
    "silu_backward": 6,  # s = sigmoid(x), dy * s * (1 + x * (1 - s))
    "mish_backward": 11,  # t = tanh(softplus(x)), dy * (t + x * sigmoid(x) * (1 - t * t))
    "gelu_backward": 11,  # see `gelu`
    "logit_backward": 3,  # dy / (x * (1 - x))
    "glu_backward": 3,  # dy * s, dy * a, and the sigmoid's own; dy is half as large as the input
    "_softmax_backward_data": 4,  # y * (dy - sum(dy * y))
    "_masked_softmax_backward": 4,
    "_log_softmax_backward_data": 4,  # dy - exp(y) * sum(dy)
}


def _register(name: str, operations: int) -> None:
    @register_op_cost(f"aten::{name}")
    def gradient(dy: Shape, *_: Any, out: Any, **__: Any) -> Cost:
        """Return the operations of the derivative for each element."""
        return Cost(0, operations * dy.numel)


for _name, _operations in _PER_ELEMENT.items():
    _register(_name, _operations)


@register_op_cost("aten::_sparse_softmax_backward_data")
@register_op_cost("aten::_sparse_log_softmax_backward_data")
def sparse_softmax(dy: Shape, y: Shape, *_: Any, out: Any) -> Cost:
    """Four operations for each stored element, as the dense one."""
    return Cost(0, 4 * (y.stored if isinstance(y, SparseShape) else y.numel))


def _register_loss(name: str, operations: int) -> None:
    @register_op_cost(f"aten::{name}")
    def loss(dy: Shape, x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
        """Return the operations for each element of the input; the mean's division goes into ``dy`` beforehand."""
        return Cost(0, operations * x.numel)


#: Operations for each element of the loss' input.
_PER_INPUT = {
    "mse_loss_backward": 3,  # dy * 2 * (x - t)
    "smooth_l1_loss_backward": 5,  # d = x - t, two comparisons, dy * d / beta
    "huber_loss_backward": 4,  # d = x - t, two comparisons, dy * d
    "soft_margin_loss_backward": 7,  # z = exp(-t * x), dy * -t * z / (1 + z)
}

for _name, _operations in _PER_INPUT.items():
    _register_loss(_name, _operations)


@register_op_cost("aten::binary_cross_entropy_backward")
def binary_cross_entropy(dy: Shape, x: Shape, target: Shape, weight: Shape | None = None, *_: Any, out: Any) -> Cost:
    """``dy * (x - t) / max((1 - x) * x, eps)``: 6 for each element, and one for the weight."""
    return Cost(0, x.numel * (6 + (weight is not None)))


@register_op_cost("aten::nll_loss_backward")
@register_op_cost("aten::nll_loss2d_backward")
def nll_loss(dy: Shape, x: Shape, target: Shape, *_: Any, out: Any) -> Cost:
    """``-dy`` at each target, and zero elsewhere: one for each target."""
    return Cost(0, target.numel)


@register_op_cost("aten::multi_margin_loss_backward")
def multi_margin_loss(
    dy: Shape, x: Shape, target: Shape, p: int, margin: Any, weight: Shape | None = None, *_: Any, out: Any
) -> Cost:
    """``max(0, margin - x[t] + x)``: subtract, add, compare, and the sum for the target: four for each element.

    With ``p=2`` the derivative ``2 * z * dy`` takes two more, a weight one more.
    """
    return Cost(0, x.numel * (4 + 2 * (p == 2) + (weight is not None)))


@register_op_cost("aten::_ctc_loss_backward")
def ctc_loss(
    dy: Shape,
    log_probabilities: Shape,
    targets: Shape,
    input_lengths: Any,
    target_lengths: Any,
    loss: Shape,
    log_alpha: Shape,
    *_: Any,
    out: Shape,
) -> Cost:
    """The backward variables, ``log_alpha`` having as many: 13 each, and 9 to add ``exp(alpha + beta)`` up.

    A backward variable is the logarithm of a sum of three exponentials (maximum of three, three differences, three
    exponentials, two additions, logarithm, the maximum added) and the logarithm of the symbol's probability. Adding it
    up takes ``alpha + beta``, and the logarithm of a sum of two. Each of the probabilities then takes six:
    ``dy * (exp(lp) - exp(sum + loss - lp))``.
    """
    return Cost(0, (13 + 9) * log_alpha.numel + 6 * log_probabilities.numel)
