"""Fourier transforms: the formulas of the operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from profilerkit.costs import fourier

from .registry import Cost, OpCall, Shape, UnknownShapeError, register_op_cost, register_op_costs


def _count_transform(points: Shape, axes: Sequence[int], real: bool) -> Cost:
    """Return the cost of transforms over some axes of an array of these points."""
    return fourier.transform(points.numel, math.prod(points[axis] for axis in axes), real)


def _read_padded_points(call: OpCall, axes: Sequence[int]) -> Shape:
    """Return the shape of the real points: the input's, cut or padded to the lengths that the second input gives."""
    lengths = call.value(1)
    if lengths is None:
        raise UnknownShapeError
    shape = list(call.inputs[0])
    for axis, length in zip(axes, lengths, strict=True):
        shape[axis] = int(length)
    return Shape(shape)


def _register(name: str, dimensions: int) -> None:
    """Register the transforms over the last one, two or three axes."""
    axes = range(-dimensions, 0)

    @register_op_costs(name, f"I{name}")
    def complex_to_complex(call: OpCall) -> Cost:
        """Return the cost of transforms of complex points."""
        return _count_transform(call.inputs[0], axes, real=False)

    @register_op_cost(f"R{name}")
    def real_to_complex(call: OpCall) -> Cost:
        """Return the cost of transforms of real points."""
        return _count_transform(_read_padded_points(call, axes), axes, real=True)

    @register_op_cost(f"IR{name}")
    def complex_to_real(call: OpCall) -> Cost:
        """Return the cost of transforms to real points."""
        return _count_transform(call.outputs[0], axes, real=True)


_register("FFT", 1)
_register("FFT2D", 2)
_register("FFT3D", 3)
