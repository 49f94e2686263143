"""Operators on images: windows, resampled elements, regions, and which boxes stay."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from profilerkit.costs import detection, pooling, reduction

from .registry import OPERATORS, Cost, NodeCall, Shape, UnknownCostError, register_op_cost

# Windows --------------------------------------------------------------------------------------------------------------
#: The domain of operators of ONNX Runtime on channels in blocks, which a CPU reads at once.
_BLOCKED = "com.microsoft.nchwc::"


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


# Resampled elements: each is interpolated from the input elements around a point --------------------------------------
#: How many neighbours an interpolation has in each dimension.
_NEIGHBOURS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


@OPERATORS.register_all("Resize", "Upsample")
def resize(call: NodeCall) -> Cost:
    """A weighted sum of neighbours along each dimension that is resampled; the nearest alone is moved."""
    mode = call.attribute("mode", "nearest")
    if mode not in _NEIGHBOURS or call.attribute("antialias", 0):
        raise UnknownCostError
    if mode == "nearest":  # whatever is resampled
        return Cost(0, 0)
    return pooling.resample(call.outputs[0].numel, _NEIGHBOURS[mode] ** len(_find_resampled(call)))


def _find_resampled(call: NodeCall) -> set[int]:
    """Return the dimensions along which the output elements differ from the input elements.

    A factor such as 1.2 moves elements even if the size stays the same; so does cropping to a part of the image.
    Raises `UnknownCostError` if all sizes stay, and the factors or the part are not known before the model runs.
    """
    source = call.inputs[0]
    sizes = zip(source, call.outputs[0], strict=True)
    resampled = {axis for axis, (before, after) in enumerate(sizes) if before != after}
    named = [axis % len(source) for axis in call.attribute("axes") or range(len(source))]
    factors = _read_factors(call)
    if factors is not None:
        resampled.update(axis for axis, factor in zip(named, factors, strict=False) if factor != 1)
    elif not resampled:
        raise UnknownCostError
    if call.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
        starts, ends = np.split(call.read(1), 2)
        parts = zip(named, starts, ends, strict=True)
        resampled.update(axis for axis, start, end in parts if (start, end) != (0, 1))
    return resampled


def _read_factors(call: NodeCall) -> Sequence[float] | None:
    """Return the factors of the dimensions, none if sizes are given instead; None if they are not known.

    They are an attribute up to operator set 8, the second of two inputs up to 10, and the third input since.
    """
    if "scales" in call.attributes:
        factors: Sequence[float] = call.attribute("scales")
        return factors
    index = 1 if len(call.input_dtypes) == 2 else 2
    return call.value(index) if call.has_input(index) else ()


@register_op_cost("com.microsoft.nchwc::Upsample")
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


# Regions and boxes ----------------------------------------------------------------------------------------------------
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
