"""Pooling, resampling and looking between elements: which operator goes to which formula."""

from __future__ import annotations

import math

import numpy as np

from profilerkit.costs import detection, pooling, reduction

from .registry import OPERATORS, Cost, NodeCall, Shape, UnknownCostError, register_op_cost

_BLOCKED = "com.microsoft.nchwc::"
#: How many neighbours an interpolation has in each dimension.
_NEIGHBOURS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


@OPERATORS.register_all(
    "MaxPool", "AveragePool", _BLOCKED + "MaxPool", _BLOCKED + "AveragePool", "com.microsoft::NhwcMaxPool"
)
def pool(call: NodeCall) -> Cost:
    """One comparison or addition for each element of the window."""
    window = math.prod(call.attribute("kernel_shape"))
    return pooling.pool(call.outputs[0].numel, window, average=call.type.endswith("AveragePool"))


@OPERATORS.register_all(
    "GlobalAveragePool", "GlobalMaxPool", _BLOCKED + "GlobalAveragePool", _BLOCKED + "GlobalMaxPool"
)
def global_pool(call: NodeCall) -> Cost:
    """The window is the whole image."""
    return pooling.pool(call.inputs[0].numel, 1, average=call.type.endswith("GlobalAveragePool"))


@register_op_cost("LpPool")
def power_pool(call: NodeCall) -> Cost:
    """A power and an addition for each element of the window."""
    return reduction.norm(call.outputs[0].numel * math.prod(call.attribute("kernel_shape")))


@register_op_cost("GlobalLpPool")
def global_power_pool(call: NodeCall) -> Cost:
    """A power and an addition for each element."""
    return reduction.norm(call.inputs[0].numel)


@OPERATORS.register_all("Resize", "Upsample")
def resize(call: NodeCall) -> Cost:
    """A weighted sum of neighbours along each dimension that changes its size; the nearest alone is moved."""
    mode = call.attribute("mode", "nearest")
    if mode not in _NEIGHBOURS or call.attribute("antialias", 0):
        raise UnknownCostError
    return pooling.resample(call.outputs[0].numel, _NEIGHBOURS[mode] ** len(_find_resampled(call)))


def _find_resampled(call: NodeCall) -> set[int]:
    """Return the dimensions whose elements are not those of the input.

    A factor such as 1.2 moves elements also where the size stays, and so does a part of an image in the place of all.
    """
    source = call.inputs[0]
    sizes = zip(source, call.outputs[0], strict=True)
    resampled = {axis for axis, (before, after) in enumerate(sizes) if before != after}
    named = [axis % len(source) for axis in call.attribute("axes") or range(len(source))]
    factors = call.value(2) if call.has_input(2) else None
    if factors is not None:
        resampled.update(axis for axis, factor in zip(named, factors, strict=False) if factor != 1)
    if call.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
        starts, ends = np.split(call.read(1), 2)
        parts = zip(named, starts, ends, strict=True)
        resampled.update(axis for axis, start, end in parts if (start, end) != (0, 1))
    return resampled


@register_op_cost(_BLOCKED + "Upsample")
def upsample_in_blocks(call: NodeCall) -> Cost:
    """The nearest element is moved; between linear ones lies a weighted sum along each dimension that grows."""
    grown = sum(scale != 1 for scale in call.attribute("scales"))
    return pooling.resample(call.outputs[0].numel, _NEIGHBOURS[call.attribute("mode", "nearest")] ** grown)


@register_op_cost("GridSample")
def grid_sample(call: NodeCall) -> Cost:
    """A weighted sum of the neighbours in each dimension of the image."""
    mode = call.attribute("mode", "linear")
    if mode not in _NEIGHBOURS:
        raise UnknownCostError
    out = call.outputs[0]
    return pooling.resample(out.numel, _NEIGHBOURS[mode] ** (len(out) - 2))


@register_op_cost("AffineGrid")
def affine_grid(call: NodeCall) -> Cost:
    """Each point of the grid, with a 1 added, by a ``(d, d + 1)`` matrix."""
    return pooling.affine_grid(call.outputs[0].numel, call.inputs[0][-1])


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


@register_op_cost("Col2Im")
def columns_to_image(call: NodeCall) -> Cost:
    """What lies over one another adds up: an addition for each element that is brought in."""
    return reduction.scatter(call.inputs[0].numel)
