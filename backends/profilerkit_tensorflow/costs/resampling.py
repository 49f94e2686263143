"""Resizing and sampling of images: which operator goes to which formula."""

from __future__ import annotations

from functools import partial

from profilerkit.costs import pooling

from .registry import (
    Cost,
    OpCall,
    Shape,
    register_elementwise,
    register_free,
    register_op_cost,
    register_op_costs,
    register_reduction,
)

#: The neighbours of an output element: two in each dimension if linear, four if cubic.
_BILINEAR, _BICUBIC = 4, 16

register_elementwise(partial(pooling.resample, neighbours=_BILINEAR), "ResizeBilinear")
register_elementwise(partial(pooling.resample, neighbours=_BICUBIC), "ResizeBicubic")
register_free("ResizeNearestNeighbor")

register_reduction(partial(pooling.resample_gradient, neighbours=_BILINEAR), "ResizeBilinearGrad")
register_reduction(partial(pooling.resample_gradient, neighbours=_BICUBIC), "ResizeBicubicGrad")
register_reduction(partial(pooling.resample_gradient, neighbours=1), "ResizeNearestNeighborGrad")


@register_op_cost("CropAndResize")
def crop_and_resize(call: OpCall) -> Cost:
    """A weighted sum of four neighbours for each output element; the nearest takes none."""
    return pooling.resample(call.outputs[0].numel, _BILINEAR if call.attribute("method") == "bilinear" else 1)


@register_op_costs("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def projective_transform(call: OpCall) -> Cost:
    """Return the cost of the position of each output pixel, and of the sample of each of its channels."""
    out = call.outputs[0]
    neighbours = _BILINEAR if call.attribute("interpolation") == "BILINEAR" else 1
    return pooling.projective_transform(Shape(out[:-1]).numel).plus(pooling.resample(out.numel, neighbours))
