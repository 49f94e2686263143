"""Fourier transforms: which operator goes to which formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from profilerkit.costs import fourier

from .registry import Cost, Shape, register_op_costs


def _transform(points: Shape, dimensions: Sequence[int], real: bool) -> Cost:
    return fourier.transform(points.numel, math.prod(points[dimension] for dimension in dimensions), real)


@register_op_costs("prims::fft_c2c", "aten::_fft_c2c")
def complex_to_complex(x: Shape, dim: Sequence[int], *_: Any, out: Shape, **__: Any) -> Cost:
    """Return the cost of transforms of complex points."""
    return _transform(x, dim, real=False)


@register_op_costs("prims::fft_r2c", "aten::_fft_r2c")
def real_to_complex(x: Shape, dim: Sequence[int], *_: Any, out: Shape, **__: Any) -> Cost:
    """Return the cost of transforms of real points."""
    return _transform(x, dim, real=True)


@register_op_costs("prims::fft_c2r", "aten::_fft_c2r")
def complex_to_real(x: Shape, dim: Sequence[int], *_: Any, out: Shape, **__: Any) -> Cost:
    """Return the cost of transforms to real points."""
    return _transform(out, dim, real=True)
