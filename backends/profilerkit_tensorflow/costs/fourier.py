"""Fourier transforms, by the customary count of the fast one: ``5 n log2(n)`` for n complex points, half for real."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .registry import Cost, OpCall, Shape, UnknownShapeError, register_op_cost


def _transform(points: Shape, axes: Sequence[int], per_point: float) -> Cost:
    length = math.prod(points[axis] for axis in axes)
    return Cost(0, round(per_point * points.numel * math.log2(length)) if length else 0)


def _padded(call: OpCall, axes: Sequence[int]) -> Shape:
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
        """``5 n log2(n)`` for each transform of n points."""
        return _transform(call.inputs[0], axes, 5)

    def real_to_complex(call: OpCall) -> Cost:
        """``2.5 n log2(n)`` for each transform of n real points."""
        return _transform(_padded(call, axes), axes, 2.5)

    def complex_to_real(call: OpCall) -> Cost:
        """``2.5 n log2(n)`` for each transform to n real points."""
        return _transform(call.outputs[0], axes, 2.5)

    for spelling in (name, f"I{name}", f"Batch{name}", f"BatchI{name}"):
        register_op_cost(spelling, complex_to_complex)
    register_op_cost(f"R{name}", real_to_complex)
    register_op_cost(f"IR{name}", complex_to_real)


for _dimensions, _suffix in ((1, ""), (2, "2D"), (3, "3D")):
    _register(f"FFT{_suffix}", _dimensions)


@register_op_cost("FFTND")
@register_op_cost("IFFTND")
def over_axes(call: OpCall) -> Cost:
    """``5 n log2(n)`` for each transform of n points."""
    axes = _axes(call)
    return _transform(_padded(call, axes), axes, 5)


@register_op_cost("RFFTND")
@register_op_cost("IRFFTND")
def real_over_axes(call: OpCall) -> Cost:
    """``2.5 n log2(n)`` for each transform of, or to, n real points."""
    axes = _axes(call)
    return _transform(_padded(call, axes), axes, 2.5)
