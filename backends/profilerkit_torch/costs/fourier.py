"""Fourier transforms: which operator goes to which formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from profilerkit.costs import fourier

from .families import register_op_costs
from .registry import Cost, Shape


def _price_transforms(kind: str, x: Shape, dim: Sequence[int], *_: Any, out: Shape, **__: Any) -> Cost:
    """Return the cost of transforms from real (r) or complex (c) points to either."""
    points = out if kind == "c2r" else x
    return fourier.transform(points.numel, math.prod(points[dimension] for dimension in dim), real=kind != "c2c")


for _kind in ("c2c", "r2c", "c2r"):
    register_op_costs(f"prims::fft_{_kind}", f"aten::_fft_{_kind}")(partial(_price_transforms, _kind))
