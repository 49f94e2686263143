"""Normalisation layers.

Normalising takes five operations for each element: the mean (one), the variance (subtract, square, add), the product
with the inverse deviation. A weight and a bias take one each. With known statistics a batch norm is a scale and a
shift.
"""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost, register_op_costs


def _normalisation(x: Shape, *affine: Shape | None) -> Cost:
    return Cost(0, x.numel * (5 + sum(weight is not None for weight in affine)))


@register_op_costs(
    *("aten::batch_norm", "aten::native_batch_norm", "aten::_native_batch_norm_legit"),
    *("aten::_native_batch_norm_legit_functional", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"),
)
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


@register_op_costs(
    *("aten::_native_batch_norm_legit_no_training", "aten::_batch_norm_no_update", "aten::batch_norm_elemt"),
    *("aten::quantized_batch_norm", "onednn::qbatch_norm2d"),
)
def batch_norm_no_training(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Two operations for each element."""
    return Cost(0, 2 * x.numel)


@register_op_costs(
    *("aten::_batch_norm_with_update", "aten::_batch_norm_with_update_functional"),
    "aten::_native_batch_norm_legit.no_stats",
)
def batch_norm_of_batch(x: Shape, weight: Shape | None, bias: Shape | None, *_: Any, out: Any, **__: Any) -> Cost:
    """Five operations for each element, and one each for weight and bias: the batch's own statistics."""
    return _normalisation(x, weight, bias)


@register_op_costs("aten::batch_norm_stats", "aten::batch_norm_update_stats")
def batch_norm_stats(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Mean and variance: four operations for each element; those for each channel are left out."""
    return Cost(0, 4 * x.numel)


@register_op_costs("aten::batch_norm_gather_stats", "aten::batch_norm_gather_stats_with_counts")
def batch_norm_gather_stats(x: Shape, means: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Means and variances of several devices made one: four operations for each."""
    return Cost(0, 4 * means.numel)


@register_op_costs("aten::renorm", "aten::embedding_renorm")
def renorm(x: Shape, choice: Any, *_: Any, out: Shape, **__: Any) -> Cost:
    """Square, add and scale: three operations for each element; of an embedding, for those of the rows looked up."""
    return Cost(0, 3 * (choice.numel * x[-1] if isinstance(choice, Shape) else x.numel))


@register_op_costs("aten::layer_norm", "aten::native_layer_norm", "aten::group_norm")
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


@register_op_costs("aten::rms_norm", "aten::_fused_rms_norm")
def rms_norm(x: Shape, shape: Any, weight: Shape | None = None, *_: Any, out: Any, **__: Any) -> Cost:
    """``x * rsqrt(mean(x ** 2) + epsilon) * weight``: three for each element, one for the weight, two for each mean."""
    means = Shape(x[: len(x) - len(shape)]).numel
    return Cost(0, x.numel * (3 + (weight is not None)) + 2 * means)
