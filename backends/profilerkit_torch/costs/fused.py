"""Layers of transformers that torch runs as one operator in inference: their cost is the sum of their parts."""

from __future__ import annotations

from typing import Any

from profilerkit.costs import attention

from .registry import Cost, Shape, register_by_name

__all__ = []


@register_by_name("aten::_native_multi_head_attention", "aten::_triton_multi_head_attention")
def multi_head_attention(
    *,
    query: Shape,
    key: Shape,
    embed_dim: int,
    num_head: int,
    mask: Shape | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    out: Any,
    **_: Any,
) -> Cost:
    """Return the cost of ``nn.MultiheadAttention`` without its fast path: projections with biases, and attention."""
    return attention.multi_head_attention(
        query[0],
        query[1],
        key[1],
        embed_dim,
        num_head,
        has_mask=mask is not None,
        need_weights=bool(need_weights),
        average_weights=bool(average_attn_weights),
    )


@register_by_name("aten::_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    *,
    src: Shape,
    embed_dim: int,
    num_heads: int,
    use_gelu: bool,
    ffn_weight_1: Shape,
    mask: Shape | None = None,
    out: Shape,
    **_: Any,
) -> Cost:
    """Return the cost of the layer without its fast path: attention, two linear layers, two norms, two sums."""
    batch, length, _width = src
    hidden = ffn_weight_1[0]
    return attention.transformer_encoder_layer(
        batch, length, embed_dim, num_heads, hidden, use_gelu=bool(use_gelu), has_mask=mask is not None
    )
