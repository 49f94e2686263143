"""Going to quantised integers and back."""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost


def _elements(shapes: Any) -> int:
    return shapes.numel if isinstance(shapes, Shape) else sum(map(_elements, shapes))


@register_op_cost("aten::quantize_per_tensor")
@register_op_cost("aten::quantize_per_channel")
def quantize(x: Any, *_: Any, out: Any) -> Cost:
    """``clamp(round(x / scale) + zero_point)``: scale, round and two comparisons for each element."""
    return Cost(0, 4 * _elements(out))


@register_op_cost("aten::quantize_per_tensor_dynamic")
def quantize_dynamic(x: Shape, *_: Any, out: Shape) -> Cost:
    """Two comparisons for each element to find the range, and then as with a scale that is given."""
    return Cost(0, 6 * out.numel)


@register_op_cost("aten::dequantize")
def dequantize(x: Any, *, out: Any) -> Cost:
    """``(x - zero_point) * scale``: two operations for each element."""
    return Cost(0, 2 * _elements(out))


@register_op_cost("aten::normal.Tensor_float")
@register_op_cost("aten::normal.float_Tensor")
@register_op_cost("aten::normal.Tensor_Tensor")
def normal(*_: Any, out: Shape, **__: Any) -> Cost:
    """Random numbers are free, but not ``number * std + mean``: two operations for each element."""
    return Cost(0, 2 * out.numel)
