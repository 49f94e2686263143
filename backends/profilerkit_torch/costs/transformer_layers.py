"""Layers of transformers that torch runs in one operator for inference: they cost what they are made of."""

from __future__ import annotations

from typing import Any

from profilerkit.costs import attention

from .registry import Cost, Shape, register_op_cost, register_op_costs


@register_op_costs("aten::_native_multi_head_attention", "aten::_triton_multi_head_attention")
def multi_head_attention(
    query: Shape,
    key: Shape,
    value: Shape,
    width: int,
    heads: int,
    projection: Any,
    projection_bias: Any,
    output: Any,
    output_bias: Any,
    mask: Shape | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """Return what ``nn.MultiheadAttention`` costs without its fast path: projections with biases, and attention."""
    return attention.multi_head_attention(
        query[0],
        query[1],
        key[1],
        width,
        heads,
        has_mask=mask is not None,
        need_weights=bool(need_weights),
        average_weights=bool(average_attn_weights),
    )


@register_op_cost("aten::_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    x: Shape,
    width: int,
    heads: int,
    projection: Any,
    projection_bias: Any,
    output: Any,
    output_bias: Any,
    use_gelu: bool,
    norm_first: Any,
    epsilon: Any,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    linear_weight_1: Shape,
    linear_bias_1: Any,
    linear_weight_2: Any,
    linear_bias_2: Any,
    mask: Shape | None = None,
    *_: Any,
    out: Shape,
    **__: Any,
) -> Cost:
    """Return the cost of the layer without its fast path: attention, two linear layers, two norms, two sums."""
    hidden = linear_weight_1[0]
    return attention.transformer_encoder_layer(
        x[0], x[1], width, heads, hidden, use_gelu=bool(use_gelu), has_mask=mask is not None
    )
