"""Normalization and its gradient: the formulas of the operators."""

from __future__ import annotations

from profilerkit.costs import normalization

from .registry import Cost, OpCall, register_elementwise, register_op_cost, register_op_costs


@register_op_costs("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(call: OpCall) -> Cost:
    """Return the cost with known statistics, or in training with the statistics of the batch."""
    elements = call.inputs[0].numel
    if call.attribute("is_training"):
        return normalization.normalize(elements)
    return normalization.normalize_with_known_statistics(elements)


@register_op_costs("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def batch_norm_gradient(call: OpCall) -> Cost:
    """Return the cost of all three gradients."""
    return normalization.batch_norm_gradient(call.inputs[0].numel, training=bool(call.attribute("is_training")))


register_elementwise(normalization.normalize_with_known_statistics, "BatchNormWithGlobalNormalization")


@register_op_cost("LRN")
def local_response_normalization(call: OpCall) -> Cost:
    """Return the cost of a window of ``2 * depth_radius + 1`` channels."""
    return normalization.local_response(call.outputs[0].numel, 2 * call.attribute("depth_radius") + 1)
