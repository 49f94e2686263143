"""Resampling: each output element is interpolated from the input elements around a point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from profilerkit.costs import pooling

from .registry import OPERATORS, Cost, NodeCall, UnknownCostError, register_op_cost

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
