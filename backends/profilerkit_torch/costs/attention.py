"""Attention in torch's own fused operators, and its gradients: which operator goes to which formula.

Attention that is written otherwise is made of products and a softmax, and counts as these. The dense product is counted
whatever the mask, causal ones included. A mask of numbers is added to each score; one of booleans chooses, and costs
nothing, as where it is written as ``where`` or ``masked_fill``.
"""

from __future__ import annotations

from typing import Any

from profilerkit.costs import attention, constants

from .registry import Cost, Shape, register_free, register_op_cost, register_op_costs
from .shapes import BooleanShape


@register_op_cost("aten::scaled_dot_product_attention")
def dot_product_attention(
    query: Shape, key: Shape, value: Shape, attn_mask: Shape | None = None, *_: Any, out: Shape, **__: Any
) -> Cost:
    """``softmax(q @ k.T * scale + mask) @ v``: batch * heads * L * S scores. A mask of booleans chooses among them."""
    scores = Shape(out[:-1]).numel * key[-2]  # the output's dimensions: query and key may broadcast
    return attention.attention(scores, query[-1], value[-1], _is_added(attn_mask))


def _is_added(mask: Shape | None) -> bool:
    return mask is not None and not isinstance(mask, BooleanShape)


def without_mask(operator: str, cost: Cost, scores: int) -> Cost:
    """Return the cost of an operator that attention is made of, without the addition of a mask to so many scores.

    Torch makes numbers of a mask of booleans before it adds them.
    """
    added = Cost(0, scores * constants.ADD)
    if operator.startswith("aten._scaled_dot_product"):
        return Cost(cost.macs, cost.flops - added.flops)
    return Cost(0, 0) if operator.startswith("aten.add") and cost == added else cost


@register_op_costs(
    *("aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_attention_math_for_mps"),
    *("aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_efficient_attention"),
    "aten::_scaled_dot_product_fused_attention_overrideable",
)
def attention_kernel(
    query: Shape, key: Shape, value: Shape, mask: Shape | None = None, *_: Any, out: Any, **__: Any
) -> Cost:
    """Cost as above; it returns more than the output."""
    return dot_product_attention(query, key, value, mask, out=out[0])


@register_op_costs(
    *("aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_flash_attention_for_cpu"),
    "aten::_triton_scaled_dot_attention",
)
def flash_attention(
    query: Shape, key: Shape, value: Shape, *_: Any, attn_mask: Shape | None = None, out: Any, **__: Any
) -> Cost:
    """Cost as above; the mask is no positional argument here, and it may return more than the output."""
    return dot_product_attention(query, key, value, attn_mask, out=out if isinstance(out, Shape) else out[0])


@register_op_costs(
    "aten::_flash_attention_forward", "torch_attn::_varlen_attn", "flash_attn::_flash_attn_varlen_forward"
)
def flash_attention_forward(
    query: Shape,
    key: Shape,
    value: Shape,
    query_starts: Shape | None,
    key_starts: Shape | None,
    longest_query: int,
    longest_key: int,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """Cost as above of ``(batch, length, heads, E)``, or of samples put one after the other: ``(rows, heads, E)``.

    Samples one after the other count as padded to the longest, as shapes tell no more: as many as there are starts.
    """
    return _heads_last(query, key, value, query_starts, longest_query, longest_key)


@register_op_cost("flash_attn::_flash_attn_forward")
def flash_attn(query: Shape, key: Shape, value: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Cost as above, dense: ``(batch, length, heads, E)``."""
    return _heads_last(query, key, value, None, 0, 0)


@register_op_costs(
    "aten::_flash_attention_forward_no_dropout_inplace", "aten::_cudnn_attention_forward_no_dropout_inplace"
)
def flash_attention_into(into: Shape, *arguments: Any, out: Any, **__: Any) -> Cost:
    """Cost as above, written to a tensor that is the first argument."""
    return flash_attention_forward(*arguments, out=out)


@register_op_cost("aten::_efficient_attention_forward")
def efficient_attention_forward(
    query: Shape,
    key: Shape,
    value: Shape,
    bias: Shape | None,
    query_starts: Shape | None,
    key_starts: Shape | None,
    longest_query: int | None,
    longest_key: int | None,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """Cost as of ``_flash_attention_forward``, with a mask; samples one after the other have a batch dimension of 1."""
    if query_starts is not None:
        query, key, value = (Shape(x[1:]) for x in (query, key, value))
    return _heads_last(query, key, value, query_starts, longest_query or 0, longest_key or 0, _is_added(bias))


@register_op_cost("aten::_cudnn_attention_forward")
def cudnn_attention_forward(
    query: Shape,
    key: Shape,
    value: Shape,
    bias: Shape | None,
    query_starts: Shape | None,
    key_starts: Shape | None,
    longest_query: int,
    longest_key: int,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """Cost as of ``_flash_attention_forward``, with a mask; dense, the heads come before the length."""
    if query_starts is None:
        return dot_product_attention(query, key, value, bias, out=query)
    return _heads_last(query, key, value, query_starts, longest_query, longest_key, _is_added(bias))


def _heads_last(
    query: Shape, key: Shape, value: Shape, starts: Shape | None, longest: int, longest_key: int, masked: bool = False
) -> Cost:
    if starts is None:
        batch, length, keys = query[0], query[1], key[1]
    else:
        batch, length, keys = starts[0] - 1, longest, longest_key
    scores = batch * length * keys * query[-2]
    return attention.attention(scores, query[-1], value[-1], masked)


@register_op_costs("aten::_native_multi_head_attention", "aten::_triton_multi_head_attention")
def multi_head_attention(
    query: Shape,
    key: Shape,
    value: Shape,
    width: int,
    heads: int,
    *weights: Any,
    mask: Shape | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    out: Any,
    **__: Any,
) -> Cost:
    """Return what ``nn.MultiheadAttention`` costs without its fast path: projections with biases, and attention."""
    options = (*weights[4:], *(mask, need_weights, average_attn_weights)[len(weights[4:]) :])
    mask, need_weights, average_attn_weights = options[:3]
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
    *weights: Any,
    mask: Shape | None = None,
    out: Shape,
    **__: Any,
) -> Cost:
    """Return the cost of the layer without its fast path: attention, two linear layers, two norms, two sums.

    The arguments after the heads are four weights of attention, which activation (GELU, or else ReLU), where the norms
    are, their epsilon, their four weights, the four of the linear layers, and the mask.
    """
    use_gelu, hidden, mask = weights[4], weights[11], weights[15] if len(weights) > 15 else mask
    return attention.transformer_encoder_layer(
        x[0], x[1], width, heads, hidden[0], use_gelu=bool(use_gelu), has_mask=mask is not None
    )


@register_op_cost("aten::_transform_bias_rescale_qkv")
def transform_bias_rescale_qkv(qkv: Shape, bias: Shape, heads: int, *, out: Any) -> Cost:
    """An addition for each element of the three projections, and the scale of the queries."""
    return attention.project_queries(qkv.numel)


register_free("aten::_fused_sdp_choice", "aten::_fill_mem_eff_dropout_mask_")

# Gradients ------------------------------------------------------------------------------------------------------------


@register_op_cost("aten::_scaled_dot_product_cudnn_attention_backward")
@register_op_cost("aten::_scaled_dot_product_efficient_attention_backward")
@register_op_cost("aten::_scaled_dot_product_flash_attention_backward")
@register_op_cost("aten::_scaled_dot_product_flash_attention_for_cpu_backward")
@register_op_cost("aten::_scaled_dot_product_fused_attention_overrideable_backward")
def attention_gradient(dy: Shape, query: Shape, key: Shape, value: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost of the gradients by queries, keys and values, of batch * heads * L * S scores."""
    return attention.attention_gradient(Shape(dy[:-1]).numel * key[-2], query[-1], value[-1])


@register_op_cost("aten::_flash_attention_backward")
def flash_attention_gradient(
    dy: Shape,
    query: Shape,
    key: Shape,
    value: Shape,
    y: Any,
    sums: Any,
    starts: Shape | None,
    starts_key: Any,
    longest: int,
    longest_key: int,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """As `attention_gradient`, of ``(batch, L, heads, E)``."""
    return _gradient_heads_last(query, key, value, starts, longest * longest_key)


@register_op_cost("aten::_efficient_attention_backward")
def efficient_attention_gradient(
    dy: Shape,
    query: Shape,
    key: Shape,
    value: Shape,
    bias: Any,
    y: Any,
    starts: Shape | None,
    starts_key: Any,
    longest: int,
    longest_key: int,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """As `attention_gradient`, of ``(batch, L, heads, E)``."""
    return _gradient_heads_last(query, key, value, starts, longest * longest_key)


@register_op_cost("aten::_cudnn_attention_backward")
def cudnn_attention_gradient(
    dy: Shape,
    query: Shape,
    key: Shape,
    value: Shape,
    y: Any,
    sums: Any,
    seed: Any,
    offset: Any,
    bias: Any,
    starts: Shape | None,
    starts_key: Any,
    longest: int,
    longest_key: int,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """As `attention_gradient`; packed sequences have their heads last."""
    if starts is None:
        return attention_gradient(dy, query, key, value, out=out)
    return _gradient_heads_last(query, key, value, starts, longest * longest_key)


def _gradient_heads_last(query: Shape, key: Shape, value: Shape, starts: Shape | None, longest: int) -> Cost:
    """Packed sequences, which ``starts`` lays out, count as if all were as long as the longest: padding is data."""
    scores = Shape(query[:-1]).numel * key[-3] if starts is None else (starts[0] - 1) * query[-2] * longest
    return attention.attention_gradient(scores, query[-1], value[-1])
