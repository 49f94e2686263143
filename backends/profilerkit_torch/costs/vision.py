"""Operators of torchvision, by name: torchvision is not imported for them."""

from __future__ import annotations

from typing import Any

from profilerkit.costs import convolution, detection

from .registry import UNCOUNTED, Cost, Shape, register_op_cost


@register_op_cost("torchvision::deform_conv2d")
def deform_conv(x: Shape, weight: Shape, *settings: Any, out: Shape) -> Cost:
    """Return the cost of the sampling and of the convolution; torchvision passes zeros if there is no bias."""
    uses_mask = settings[-1]
    sampled = out[0] * x[1] * Shape(weight[2:]).numel * Shape(out[2:]).numel
    filter_elements = Shape(weight[1:]).numel
    return convolution.deformable_convolution(out.numel, filter_elements, sampled, bool(uses_mask), out.numel)


@register_op_cost("torchvision::nms")
def nms(boxes: Shape, scores: Shape, *_: Any, out: Shape) -> Cost:
    """Return the cost for each pair of boxes and for each box."""
    return detection.non_maximum_suppression(boxes[0])


@register_op_cost("torchvision::roi_align")
def roi_align(x: Shape, boxes: Shape, *settings: Any, out: Shape) -> Cost:
    """``sampling_ratio ** 2`` points between their neighbours and their mean, for each output element.

    Without a ratio there are as many as fit into each box, which shapes do not show. The settings are the scale of the
    boxes, height and width of the output, and the ratio.
    """
    sampling_ratio = settings[3]
    return UNCOUNTED if sampling_ratio <= 0 else detection.roi_align(out.numel, sampling_ratio**2)


@register_op_cost("torchvision::ps_roi_align")
def position_sensitive_roi_align(*arguments: Any, out: Any) -> Cost:
    """Like ``roi_align``; each output element takes its points from a separate channel."""
    return roi_align(*arguments, out=out[0])
