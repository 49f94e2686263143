"""Operators of torchvision, by name: it is not imported for them."""

from __future__ import annotations

from typing import Any

from .registry import UNCOUNTED, Cost, Shape, register_op_cost

#: A weighted sum of the four neighbours of a point.
_BILINEAR = 7


@register_op_cost("torchvision::deform_conv2d")
def deform_conv(
    x: Shape,
    weight: Shape,
    offset: Shape,
    mask: Shape,
    bias: Shape,
    *settings: Any,
    out: Shape,
) -> Cost:
    """``out * (in_channels / groups) * kernel``, after each of the inputs was taken between its neighbours.

    That takes 7 operations for each channel, place and element of the kernel, and one for the mask where it is used.
    An addition for each output element: torchvision passes zeros where there is no bias.
    """
    *_, uses_mask = settings
    sampled = out[0] * x[1] * Shape(weight[2:]).numel * Shape(out[2:]).numel
    return Cost.of_macs(out.numel * Shape(weight[1:]).numel, out.numel + sampled * (_BILINEAR + bool(uses_mask)))


@register_op_cost("torchvision::nms")
def nms(boxes: Shape, scores: Shape, *_: Any, out: Shape) -> Cost:
    """12 operations for each pair of boxes: the overlap's corners (4), sides (4) and area, the union (2), the ratio.

    All pairs are counted; those of a box that is dropped early are left out in a run. The areas take 3 for each box.
    """
    count = boxes[0]
    return Cost(0, 12 * (count * (count - 1) // 2) + 3 * count)


@register_op_cost("torchvision::roi_align")
def roi_align(
    x: Shape,
    boxes: Shape,
    scale: float,
    height: int,
    width: int,
    sampling_ratio: int,
    *_: Any,
    out: Shape,
) -> Cost:
    """``sampling_ratio ** 2`` points between their neighbours and their mean, for each output element.

    Without a ratio there are as many as fit into each box, which shapes do not tell.
    """
    if sampling_ratio <= 0:
        return UNCOUNTED
    return Cost(0, out.numel * sampling_ratio**2 * (_BILINEAR + 1))


@register_op_cost("torchvision::ps_roi_align")
def position_sensitive_roi_align(
    x: Shape, boxes: Shape, scale: float, height: int, width: int, sampling_ratio: int, *, out: Any
) -> Cost:
    """As ``roi_align``; the output element takes its points from a channel of its own."""
    return roi_align(x, boxes, scale, height, width, sampling_ratio, out=out[0])


@register_op_cost("torchvision::roi_pool")
@register_op_cost("torchvision::ps_roi_pool")
def roi_pool(*_: Any, out: Any) -> Cost:
    """How many elements each box covers is in the values of the boxes: shapes do not tell."""
    return UNCOUNTED
