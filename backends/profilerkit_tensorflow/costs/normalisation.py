"""Normalisation.

Normalising takes five operations for each element: the mean (one), the variance (subtract, square, add), the product
with the inverse deviation. A scale and an offset take one each. With known statistics a batch norm is a scale and a
shift.
"""

from __future__ import annotations

from .registry import Cost, OpCall, register_elementwise, register_op_cost


def _per_element(call: OpCall) -> int:
    return 7 if call.attribute("is_training") else 2


def _is_activated(call: OpCall) -> bool:
    return call.attribute("activation_mode") not in (None, "Identity")


@register_op_cost("FusedBatchNorm")
@register_op_cost("FusedBatchNormV2")
@register_op_cost("FusedBatchNormV3")
@register_op_cost("_MklNativeFusedBatchNorm")
@register_op_cost("_MklNativeFusedBatchNormV2")
@register_op_cost("_MklNativeFusedBatchNormV3")
def fused_batch_norm(call: OpCall) -> Cost:
    """Two operations for each element with known statistics; five, and one each for scale and offset, in training."""
    return Cost(0, _per_element(call) * call.inputs[0].numel)


@register_op_cost("_FusedBatchNormEx")
@register_op_cost("_MklNativeFusedBatchNormEx")
def batch_norm_with_activation(call: OpCall) -> Cost:
    """As without; one more for each element for a side input, and for the activation (ReLU)."""
    further = (call.attribute("num_side_inputs") or 0) + _is_activated(call)
    return Cost(0, (_per_element(call) + further) * call.inputs[0].numel)


@register_op_cost("FusedBatchNormGrad")
@register_op_cost("FusedBatchNormGradV2")
@register_op_cost("FusedBatchNormGradV3")
@register_op_cost("_FusedBatchNormGradEx")
@register_op_cost("_MklNativeFusedBatchNormGrad")
@register_op_cost("_MklNativeFusedBatchNormGradV2")
@register_op_cost("_MklNativeFusedBatchNormGradV3")
def fused_batch_norm_gradient(call: OpCall) -> Cost:
    """``scale / deviation * (dy - mean(dy) - n * mean(dy * n))`` of the normalised ``n = (x - mean) / deviation``.

    Subtract and divide for n, ``dy * n`` and two sums (the scale's and the offset's gradients), then two differences
    and two products: nine for each element. With known statistics the two differences and a product fall away. The
    gradient of the ReLU that is fused with it takes one more.
    """
    operations = 9 if call.attribute("is_training") else 6
    return Cost(0, (operations + _is_activated(call)) * call.inputs[0].numel)


register_elementwise(5 + 2, "_MklFusedInstanceNorm", "_MklLayerNorm")
register_elementwise(2, "BatchNormWithGlobalNormalization")  # the statistics are known


@register_op_cost("LRN")
def local_response_normalisation(call: OpCall) -> Cost:
    """``x / (bias + alpha * sum(x ** 2)) ** beta``: square, sum of ``2 * depth_radius + 1``, and four for the rest."""
    window = 2 * call.attribute("depth_radius") + 1
    return Cost(0, (5 + window) * call.outputs[0].numel)
