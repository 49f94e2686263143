"""Attention, in torch's own fused spelling; the others are made of products and softmax and count as these."""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost


@register_op_cost("aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Shape, key: Shape, value: Shape, attn_mask: Shape | None = None, *_: Any, out: Shape, **__: Any
) -> Cost:
    """``softmax(q @ k.T * scale + mask) @ v``: batch * heads * L * S * (E + Ev) multiply-accumulates.

    Each of the batch * heads * L * S scores is scaled, masked where there is a mask, and goes through the softmax
    (five operations). The dense product is counted whatever the mask, causal ones included.
    """
    scores = Shape(out[:-1]).numel * key[-2]  # the output's dimensions: query and key may broadcast
    return Cost.of_macs(scores * (query[-1] + value[-1]), scores * (6 + (attn_mask is not None)))


@register_op_cost("aten::_scaled_dot_product_attention_math")
@register_op_cost("aten::_scaled_dot_product_attention_math_for_mps")
@register_op_cost("aten::_scaled_dot_product_cudnn_attention")
@register_op_cost("aten::_scaled_dot_product_efficient_attention")
@register_op_cost("aten::_scaled_dot_product_fused_attention_overrideable")
def attention_kernel(
    query: Shape, key: Shape, value: Shape, mask: Shape | None = None, *_: Any, out: Any, **__: Any
) -> Cost:
    """Cost as above; it returns more than the output."""
    return scaled_dot_product_attention(query, key, value, mask, out=out[0])


@register_op_cost("aten::_scaled_dot_product_flash_attention")
@register_op_cost("aten::_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    query: Shape, key: Shape, value: Shape, *_: Any, attn_mask: Shape | None = None, out: Any, **__: Any
) -> Cost:
    """Cost as above; the mask is no positional argument here, and it returns more than the output."""
    return scaled_dot_product_attention(query, key, value, attn_mask, out=out[0])


@register_op_cost("aten::softmax")
@register_op_cost("aten::_softmax")
@register_op_cost("aten::_safe_softmax")
@register_op_cost("aten::log_softmax")
@register_op_cost("aten::_log_softmax")
def softmax(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Five operations for each element: maximum, subtraction, exponential, sum, division (or logarithm's)."""
    return Cost(0, 5 * x.numel)
