"""Fourier transforms: which operator goes to which formula."""

from __future__ import annotations

import math
from collections.abc import Sequence

from profilerkit.costs import fourier

from .registry import Cost, OpCall, Shape, UnknownShapeError, register_op_cost, register_op_costs


def _transform(points: Shape, axes: Sequence[int], real: bool) -> Cost:
    return fourier.transform(points.numel, math.prod(points[axis] for axis in axes), real)


def _pad(call: OpCall, axes: Sequence[int]) -> Shape:
    """Return the shape of the real points: the input's, cut or padded to the lengths that the second input gives."""
    lengths = call.value(1)
    if lengths is None:
        raise UnknownShapeError
    shape = list(call.inputs[0])
    for axis, length in zip(axes, lengths, strict=True):
        shape[axis] = int(length)
    return Shape(shape)


def _axes(call: OpCall) -> list[int]:
    """Return the axes of a transform over any of them: the third input."""
    axes = call.value(2)
    if axes is None:
        raise UnknownShapeError
    return [int(axis) for axis in axes]


def _register(name: str, dimensions: int) -> None:
    axes = tuple(range(-dimensions, 0))

    def complex_to_complex(call: OpCall) -> Cost:
        """Return the cost of transforms of complex points."""
        return _transform(call.inputs[0], axes, real=False)

    def real_to_complex(call: OpCall) -> Cost:
        """Return the cost of transforms of real points."""
        return _transform(_pad(call, axes), axes, real=True)

    def complex_to_real(call: OpCall) -> Cost:
        """Return the cost of transforms to real points."""
        return _transform(call.outputs[0], axes, real=True)

    for spelling in (name, f"I{name}", f"Batch{name}", f"BatchI{name}"):
        register_op_cost(spelling, complex_to_complex)
    register_op_cost(f"R{name}", real_to_complex)
    register_op_cost(f"IR{name}", complex_to_real)


for _dimensions, _suffix in ((1, ""), (2, "2D"), (3, "3D")):
    _register(f"FFT{_suffix}", _dimensions)


@register_op_costs("FFTND", "IFFTND")
def over_axes(call: OpCall) -> Cost:
    """Return the cost of transforms of complex points."""
    axes = _axes(call)
    return _transform(_pad(call, axes), axes, real=False)


@register_op_costs("RFFTND", "IRFFTND")
def real_over_axes(call: OpCall) -> Cost:
    """Return the cost of transforms of, or to, real points."""
    axes = _axes(call)
    return _transform(_pad(call, axes), axes, real=True)
