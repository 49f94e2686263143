"""Gradients of normalisation layers.

With the normalised ``n = (x - mean) / deviation``, the gradient by the input is
``weight / deviation * (dy - mean(dy) - n * mean(dy * n))``: subtract and divide for n, ``dy * n``, two sums, two
differences and two products, nine operations for each element. With known statistics no mean depends on the input:
``dy * weight / deviation`` is one. The gradient by the weight is the sum of ``dy * n``, that by the bias the sum of
``dy``; a batch norm and a group norm have both sums already.
"""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost


def _by_channel(x: Shape, training: bool, wanted: tuple[bool, bool, bool] = (True, True, True)) -> Cost:
    by_input, by_weight, by_bias = wanted
    if training and by_input:
        return Cost(0, 9 * x.numel)
    return Cost(0, x.numel * (by_input + 4 * by_weight + by_bias))  # n is two, dy * n one, each sum one


@register_op_cost("aten::native_batch_norm_backward")
@register_op_cost("aten::batch_norm_backward")
def batch_norm(
    dy: Shape,
    x: Shape,
    weight: Any,
    mean: Any,
    var: Any,
    a: Any,
    b: Any,
    training: bool,
    eps: Any,
    wanted: Any,
    *_: Any,
    out: Any,
) -> Cost:
    """Nine operations for each element in training; with known statistics 1 for the input, 4 the weight, 1 the bias."""
    return _by_channel(x, training, wanted)


@register_op_cost("aten::cudnn_batch_norm_backward")
@register_op_cost("aten::miopen_batch_norm_backward")
def batch_norm_in_training(x: Shape, *_: Any, out: Any) -> Cost:
    """Nine operations for each element: these kernels run in training alone, and return all three gradients."""
    return _by_channel(x, True)


@register_op_cost("aten::batch_norm_backward_reduce")
def batch_norm_sums(dy: Shape, x: Shape, *_: Any, out: Any) -> Cost:
    """The first part of a batch norm over several devices: ``x - mean``, ``dy * (x - mean)`` and two sums."""
    return Cost(0, 4 * x.numel)


@register_op_cost("aten::batch_norm_backward_elemt")
def batch_norm_rest(dy: Shape, x: Shape, *_: Any, out: Any) -> Cost:
    """The second part: ``(dy - mean(dy) - (x - mean) * k) * c``, five; nine with the first."""
    return Cost(0, 5 * x.numel)


@register_op_cost("aten::native_group_norm_backward")
def group_norm(
    dy: Shape,
    x: Shape,
    mean: Any,
    deviation: Any,
    weight: Any,
    n: Any,
    c: Any,
    size: Any,
    groups: Any,
    wanted: Any,
    *,
    out: Any,
) -> Cost:
    """Nine operations for each element, the weight's and the bias' gradients included."""
    return _by_channel(x, True, wanted)


@register_op_cost("aten::native_layer_norm_backward")
def layer_norm(
    dy: Shape,
    x: Shape,
    shape: Any,
    mean: Any,
    deviation: Any,
    weight: Shape | None,
    bias: Any,
    wanted: Any,
    *,
    out: Any,
) -> Cost:
    """Nine operations for each element, and one for ``dy * weight``; two more for the weight's gradient, one the bias'.

    The sums of these two run over other elements. ``n`` takes two where the input's gradient has not computed it.
    """
    by_input, by_weight, by_bias = wanted
    of_input = 9 + (weight is not None) if by_input else 2 * by_weight
    return Cost(0, x.numel * (of_input + 2 * by_weight + by_bias))


@register_op_cost("aten::_fused_rms_norm_backward")
def rms_norm(dy: Shape, x: Shape, shape: Any, inverse: Shape, weight: Shape | None, wanted: Any, *, out: Any) -> Cost:
    """What autograd makes of ``y = x * r * weight`` of ``r = rsqrt(mean(x ** 2) + eps)``, in one kernel or spelt out.

    With ``g = dy * weight``, by the input ``g * r``, the sum of ``g * x``, and the mean's share ``s / n * 2 * x ** 1``
    added: eight for each element, and one with a weight; ``s = -0.5 * sum * r ** 3`` is three for each root. By the
    weight two, ``dy * (x * r)`` and the sum.
    """
    by_input, by_weight = wanted
    of_input = (8 + (weight is not None)) * x.numel + 3 * inverse.numel
    return Cost(0, of_input * by_input + 2 * by_weight * x.numel)


@register_op_cost("aten::_weight_norm_interface_backward")
def weight_norm(dw: Shape, v: Shape, g: Shape, *_: Any, out: Any) -> Cost:
    """``g / norm * (dw - v * s / norm ** 2)`` of ``s = sum(dw * v)``, and ``s / norm``: 5 for each of v, 4 of g."""
    return Cost(0, 5 * v.numel + 4 * g.numel)
