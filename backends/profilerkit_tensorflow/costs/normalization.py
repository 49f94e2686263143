"""Normalization and its gradient: the formulas of the operators."""

from __future__ import annotations

from profilerkit.costs import activation, elementwise, normalization

from .registry import Cost, OpCall, register_op_cost, register_op_costs


@register_op_costs("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(call: OpCall) -> Cost:
    """Return the cost with known statistics, or in training with the statistics of the batch."""
    elements = call.inputs[0].numel
    if call.attribute("is_training"):
        return normalization.normalize(elements)
    return normalization.normalize_with_known_statistics(elements)


@register_op_cost("_FusedBatchNormEx")
def batch_norm_with_activation(call: OpCall) -> Cost:
    """Return the cost of the normalization, an addition for each element of a side input, and the activation (ReLU)."""
    elements = call.inputs[0].numel
    side = elementwise.add_summands(1 + (call.attribute("num_side_inputs") or 0), elements)
    return activation.add_activation(batch_norm(call).plus(side), elements, "relu" if _is_activated(call) else None)


@register_op_costs("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", "_FusedBatchNormGradEx")
def batch_norm_gradient(call: OpCall) -> Cost:
    """Return the cost of all three gradients, and of the gradient of a fused ReLU."""
    elements = call.inputs[0].numel
    cost = normalization.batch_norm_gradient(elements, training=bool(call.attribute("is_training")))
    return cost.plus(activation.elementary_gradient(elements if _is_activated(call) else 0))


def _is_activated(call: OpCall) -> bool:
    return call.attribute("activation_mode") not in (None, "Identity")


@register_op_cost("LRN")
def local_response_normalization(call: OpCall) -> Cost:
    """Return the cost of a window of ``2 * depth_radius + 1`` channels."""
    return normalization.local_response(call.outputs[0].numel, 2 * call.attribute("depth_radius") + 1)
