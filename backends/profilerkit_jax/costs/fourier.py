"""Fourier transforms: the formulas of the primitives."""

from __future__ import annotations

import math

from profilerkit.costs import fourier

from .registry import Cost, PrimitiveCall, register_op_cost


@register_op_cost("fft")
def fft(call: PrimitiveCall) -> Cost:
    """Along several dimensions at once the length is the product of them: the doublings of each add up."""
    kind = call.params["fft_type"].name
    length = math.prod(call.params["fft_lengths"])
    is_real = "RFFT" in kind
    points = call.outputs[0].numel if "IRFFT" in kind or not is_real else call.inputs[0].numel
    return fourier.transform(points, length, real=is_real)
