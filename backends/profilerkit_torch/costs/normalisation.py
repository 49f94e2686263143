"""Normalisation layers.

Normalising takes five operations for each element: the mean (one), the variance (subtract, square, add), the product
with the inverse deviation. A weight and a bias take one each. With known statistics a batch norm is a scale and a
shift.
"""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost


def _normalisation(x: Shape, *affine: Shape | None) -> Cost:
    return Cost(0, x.numel * (5 + sum(weight is not None for weight in affine)))


@register_op_cost("aten::batch_norm")
@register_op_cost("aten::native_batch_norm")
@register_op_cost("aten::_native_batch_norm_legit")
@register_op_cost("aten::cudnn_batch_norm")
def batch_norm(
    x: Shape,
    weight: Shape | None,
    bias: Shape | None,
    mean: Any,
    var: Any,
    training: bool,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """Two operations for each element with known statistics; five, and one each for weight and bias, in training."""
    return _normalisation(x, weight, bias) if training else Cost(0, 2 * x.numel)


@register_op_cost("aten::_native_batch_norm_legit_no_training")
def batch_norm_no_training(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Two operations for each element."""
    return Cost(0, 2 * x.numel)


@register_op_cost("aten::layer_norm")
@register_op_cost("aten::native_layer_norm")
@register_op_cost("aten::group_norm")
def layer_norm(
    x: Shape, shape_or_groups: Any, weight: Shape | None = None, bias: Shape | None = None, *_: Any, out: Any, **__: Any
) -> Cost:
    """Five operations for each element, and one each for weight and bias."""
    return _normalisation(x, weight, bias)


@register_op_cost("aten::native_group_norm")
def native_group_norm(x: Shape, weight: Shape | None, bias: Shape | None, *_: Any, out: Any, **__: Any) -> Cost:
    """Five operations for each element, and one each for weight and bias."""
    return _normalisation(x, weight, bias)


@register_op_cost("aten::_weight_norm_interface")
def weight_norm(v: Shape, g: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """``v * (g / norm(v))``: square, add and multiply for each element of v, one division for each of g."""
    return Cost(0, 3 * v.numel + g.numel)


@register_op_cost("aten::rms_norm")
@register_op_cost("aten::_fused_rms_norm")
def rms_norm(x: Shape, shape: Any, weight: Shape | None = None, *_: Any, out: Any, **__: Any) -> Cost:
    """Square, mean, product with the inverse root: three for each element, and one for the weight."""
    return Cost(0, x.numel * (3 + (weight is not None)))
