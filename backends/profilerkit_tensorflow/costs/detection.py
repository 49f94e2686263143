"""Operators of object detection."""

from __future__ import annotations

from profilerkit.costs import detection

from .registry import Cost, OpCall, UnknownCostError, register_op_cost, register_op_costs


@register_op_costs(
    *("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5")
)
def non_maximum_suppression(call: OpCall) -> Cost:
    """The overlaps of all pairs of boxes. The soft variant, which lowers scores by them, is not counted."""
    softness = call.value(5) if call.type == "NonMaxSuppressionV5" else 0.0
    if softness is None or softness != 0:
        raise UnknownCostError
    return detection.non_maximum_suppression(call.inputs[0][0])


@register_op_cost("CombinedNonMaxSuppression")
def non_maximum_suppression_by_class(call: OpCall) -> Cost:
    """The overlaps of the boxes of each image, once for each class."""
    batch, boxes, classes = call.inputs[1]
    return detection.non_maximum_suppression(boxes).times(batch * classes)
