"""Resizing and sampling of images: the formulas of the operators."""

from __future__ import annotations

from functools import partial

from profilerkit.costs import pooling

from .registry import (
    Cost,
    OpCall,
    Shape,
    UnknownCostError,
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


@register_op_cost("ResizeArea")
def resize_area(call: OpCall) -> Cost:
    """A weighted sum of the pixels that lie under each output pixel, whole or in part."""
    if call.attribute("align_corners"):  # only functions of TensorFlow 1 ask for it: the pixels lie elsewhere
        raise UnknownCostError
    batch, height, width, channels = call.inputs[0]
    _, resized_height, resized_width, _ = call.outputs[0]
    return pooling.resample_areas(batch * channels, (height, resized_height), (width, resized_width))


#: How far the kernels of ``ScaleAndTranslate`` reach to both sides, in pixels.
_REACH = {
    "lanczos1": 2,
    "lanczos3": 6,
    "lanczos5": 10,
    "gaussian": 3,
    "box": 1,
    "triangle": 2,
    "keyscubic": 4,
    "mitchellcubic": 4,
}


@register_op_cost("ScaleAndTranslate")
def scale_and_translate(call: OpCall) -> Cost:
    """A weighted sum along the height, then along the width; if antialiased, a smaller image takes longer sums.

    The scale follows from the sizes, like in ``tf.image.resize``.
    """
    kernel = call.attribute("kernel_type")
    if kernel not in _REACH:
        raise UnknownCostError
    batch, height, width, channels = call.inputs[0]
    _, resized_height, resized_width, _ = call.outputs[0]
    reach, is_antialiased = _REACH[kernel], call.attribute("antialias")
    rows = pooling.smooth_reach(reach, height, resized_height if is_antialiased else height)
    columns = pooling.smooth_reach(reach, width, resized_width if is_antialiased else width)
    between = batch * resized_height * width * channels  # once the height is resized, and the width is not
    return pooling.smooth_resample(between, rows, call.outputs[0].numel, columns)


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
