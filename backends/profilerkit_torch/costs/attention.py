"""Attention, in torch's own fused spelling; the others are made of products and softmax and count as these."""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_free, register_op_cost, register_op_costs


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


@register_op_costs(
    *("aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_attention_math_for_mps"),
    *("aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_efficient_attention"),
    "aten::_scaled_dot_product_fused_attention_overrideable",
)
def attention_kernel(
    query: Shape, key: Shape, value: Shape, mask: Shape | None = None, *_: Any, out: Any, **__: Any
) -> Cost:
    """Cost as above; it returns more than the output."""
    return scaled_dot_product_attention(query, key, value, mask, out=out[0])


@register_op_costs(
    *("aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_flash_attention_for_cpu"),
    "aten::_triton_scaled_dot_attention",
)
def flash_attention(
    query: Shape, key: Shape, value: Shape, *_: Any, attn_mask: Shape | None = None, out: Any, **__: Any
) -> Cost:
    """Cost as above; the mask is no positional argument here, and it may return more than the output."""
    return scaled_dot_product_attention(query, key, value, attn_mask, out=out if isinstance(out, Shape) else out[0])


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


@register_op_cost("aten::_flash_attention_forward_no_dropout_inplace")
def flash_attention_into(into: Shape, *arguments: Any, out: Any, **__: Any) -> Cost:
    """Cost as above, written to a tensor that is given first."""
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
    return _heads_last(query, key, value, query_starts, longest_query or 0, longest_key or 0, bias is not None)


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
        return scaled_dot_product_attention(query, key, value, bias, out=query)
    return _heads_last(query, key, value, query_starts, longest_query, longest_key, bias is not None)


def _heads_last(
    query: Shape, key: Shape, value: Shape, starts: Shape | None, longest: int, longest_key: int, masked: bool = False
) -> Cost:
    if starts is None:
        batch, length, keys = query[0], query[1], key[1]
    else:
        batch, length, keys = starts[0] - 1, longest, longest_key
    scores = batch * length * keys * query[-2]
    return Cost.of_macs(scores * (query[-1] + value[-1]), scores * (6 + masked))


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
    """Four projections with their biases, and attention; ``nn.MultiheadAttention`` without its fast path costs as much.

    Where the weights are wanted too, it scales the queries in place of the scores, and averages over the heads.
    """
    given = (*weights[4:], *(mask, need_weights, average_attn_weights)[len(weights[4:]) :])
    mask, need_weights, average_attn_weights = given[:3]
    batch, length, keys = query[0], query[1], key[1]
    scores = batch * heads * length * keys
    rows = batch * 2 * (length + keys)
    macs = rows * width * width + 2 * scores * (width // heads)
    if need_weights:
        flops = scores * (5 + (mask is not None) + average_attn_weights) + query.numel
    else:
        flops = scores * (6 + (mask is not None))
    return Cost.of_macs(macs, rows * width + flops)


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
    attention = multi_head_attention(x, x, x, width, heads, *weights[:4], mask, False, out=(out, None))
    inner = Shape(x[:-1]).numel * hidden[0]
    further = inner * (1 + (5 if use_gelu else 1)) + x.numel * (1 + 2 * 7 + 2)
    return Cost(attention.macs + 2 * inner * width, attention.flops + 4 * inner * width + further)


@register_op_cost("aten::_transform_bias_rescale_qkv")
def transform_bias_rescale_qkv(qkv: Shape, bias: Shape, heads: int, *, out: Any) -> Cost:
    """An addition for each element of the three projections, and the scale of the queries."""
    return Cost(0, qkv.numel + qkv.numel // 3)


@register_op_costs(
    *("aten::softmax", "aten::_softmax", "aten::_safe_softmax", "aten::log_softmax", "aten::_log_softmax"),
    *("aten::_masked_softmax", "aten::_nested_tensor_softmax_with_shape"),
)
def softmax(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Five operations for each element: maximum, subtraction, exponential, sum, division (or logarithm's)."""
    return Cost(0, 5 * x.numel)


register_free("aten::_fused_sdp_choice", "aten::_fill_mem_eff_dropout_mask_")
