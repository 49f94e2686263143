"""Operators of object detection: regions of images, and which of their boxes stay."""

from __future__ import annotations

from profilerkit.costs import detection

from .registry import Cost, NodeCall, Shape, UnknownCostError, register_op_cost


@register_op_cost("RoiAlign")
def roi_align(call: NodeCall) -> Cost:
    """``sampling_ratio ** 2`` points for each output element; adaptive ones depend on the boxes."""
    ratio = call.attribute("sampling_ratio", 0)
    if not ratio or call.attribute("mode", "avg") != "avg":
        raise UnknownCostError
    return detection.roi_align(call.outputs[0].numel, ratio**2)


@register_op_cost("NonMaxSuppression")
def non_maximum_suppression(call: NodeCall) -> Cost:
    """The overlaps of the boxes of each image, once for each class."""
    boxes, scores = call.inputs[0], call.inputs[1]
    return detection.non_maximum_suppression(boxes[1]).times(Shape(scores[:2]).numel)
