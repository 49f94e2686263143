"""Fourier transforms, by the customary count of the fast one: ``5 n log2(n)`` for n complex points, half for real."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .registry import Cost, Shape, register_op_cost


def _transform(points: Shape, dimensions: Sequence[int], per_point: float) -> Cost:
    length = math.prod(points[dimension] for dimension in dimensions)
    return Cost(0, round(per_point * points.numel * math.log2(length)) if length else 0)


@register_op_cost("prims::fft_c2c")
@register_op_cost("aten::_fft_c2c")
def complex_to_complex(x: Shape, dim: Sequence[int], *_: Any, out: Shape, **__: Any) -> Cost:
    """``5 n log2(n)`` for each transform of n points."""
    return _transform(x, dim, 5)


@register_op_cost("prims::fft_r2c")
@register_op_cost("aten::_fft_r2c")
def real_to_complex(x: Shape, dim: Sequence[int], *_: Any, out: Shape, **__: Any) -> Cost:
    """``2.5 n log2(n)`` for each transform of n real points."""
    return _transform(x, dim, 2.5)


@register_op_cost("prims::fft_c2r")
@register_op_cost("aten::_fft_c2r")
def complex_to_real(x: Shape, dim: Sequence[int], *_: Any, out: Shape, **__: Any) -> Cost:
    """``2.5 n log2(n)`` for each transform to n real points."""
    return _transform(out, dim, 2.5)
