"""Resizing and sampling of images: what goes into each output element."""

from __future__ import annotations

from .registry import Cost, OpCall, Shape, register_elementwise, register_free, register_op_cost, register_reduction

# A weighted sum of the neighbours: as many products as there are, and one addition fewer.
register_elementwise(2 * 4 - 1, "ResizeBilinear")
register_elementwise(2 * 16 - 1, "ResizeBicubic")
register_free("ResizeNearestNeighbor")

# A product and an addition for each neighbour of each gradient; the nearest only adds up.
register_reduction(2 * 4, "ResizeBilinearGrad")
register_reduction(2 * 16, "ResizeBicubicGrad")
register_reduction(1, "ResizeNearestNeighborGrad")


@register_op_cost("CropAndResize")
def crop_and_resize(call: OpCall) -> Cost:
    """A weighted sum of four neighbours, seven operations for each output element; the nearest takes none."""
    return Cost(0, 7 * call.outputs[0].numel if call.attribute("method") == "bilinear" else 0)


@register_op_cost("ImageProjectiveTransformV2")
@register_op_cost("ImageProjectiveTransformV3")
def projective_transform(call: OpCall) -> Cost:
    """``(a x + b y + c) / k`` and ``(d x + e y + f) / k`` of ``k = g x + h y + 1`` for each pixel: 14.

    Each of its channels takes seven more where neighbours are weighted, none where the nearest is taken.
    """
    out = call.outputs[0]
    sampling = 7 * out.numel if call.attribute("interpolation") == "BILINEAR" else 0
    return Cost(0, 14 * Shape(out[:-1]).numel + sampling)
