"""Attention in torch's own fused operators: which operator goes to which formula.

Attention that is written otherwise is made of products and a softmax, and counts as these. The dense product is counted
whatever the mask, causal ones included. A mask of numbers is added to each score; one of booleans chooses, and costs
nothing, as where it is written as ``where`` or ``masked_fill``. Samples that lie one after the other count as padded to
the longest, as shapes tell no more: as many as there are starts of samples, less one.
"""

from __future__ import annotations

from typing import Any

from profilerkit.costs import attention, constants

from .registry import Cost, Shape, register_by_name, register_free, register_op_cost, register_op_costs
from .shapes import BooleanShape


@register_by_name(
    "aten::scaled_dot_product_attention aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_attention_math_for_mps aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_efficient_attention aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_scaled_dot_product_flash_attention aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_triton_scaled_dot_attention",
)
def dot_product_attention(
    *, query: Shape, key: Shape, value: Shape, attn_mask: Any = None, dropout_p: float = 0.0, out: Any, **_: Any
) -> Cost:
    """``softmax(q @ k.T * scale + mask) @ v``: batch * heads * L * S scores, where the heads come before the length.

    Some of these return more than the output.
    """
    output = out if isinstance(out, Shape) else out[0]
    return attend(query, key, value, output, is_masked=_is_added(attn_mask), is_dropped=bool(dropout_p))


def attend(
    query: Shape, key: Shape, value: Shape, output: Shape, *, is_masked: bool = False, is_dropped: bool = False
) -> Cost:
    """Return the cost of attention by the dimensions of its output: query and key may broadcast."""
    scores = Shape(output[:-1]).numel * key[-2]
    return attention.attention(scores, query[-1], value[-1], is_masked, is_dropped)


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


# Kernels whose heads come after the length: ``(batch, length, heads, E)``; samples one after the other are
# ``(rows, heads, E)`` -------------------------------------------------------------------------------------------------


def _attend_samples(
    query: Shape,
    key: Shape,
    value: Shape,
    starts: Shape | None,
    longest: int,
    longest_key: int,
    *,
    is_masked: bool = False,
    is_dropped: bool = False,
) -> Cost:
    """Return the cost of dense attention, or with ``starts`` of samples one after the other."""
    if starts is None:
        batch, length, keys = query[0], query[1], key[1]
    else:
        batch, length, keys = starts[0] - 1, longest, longest_key
    scores = batch * length * keys * query[-2]
    return attention.attention(scores, query[-1], value[-1], is_masked, is_dropped)


@register_op_costs(
    "aten::_flash_attention_forward torch_attn::_varlen_attn flash_attn::_flash_attn_varlen_forward",
)
def flash_attention_forward(
    query: Shape,
    key: Shape,
    value: Shape,
    query_starts: Shape | None,
    key_starts: Shape | None,
    longest_query: int,
    longest_key: int,
    dropout_p: float | bool = 0.0,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """Return the cost, dense or of samples one after the other; ``_varlen_attn`` has a flag in the place of dropout."""
    is_dropped = isinstance(dropout_p, float) and dropout_p > 0
    return _attend_samples(query, key, value, query_starts, longest_query, longest_key, is_dropped=is_dropped)


@register_op_costs(
    "aten::_flash_attention_forward_no_dropout_inplace aten::_cudnn_attention_forward_no_dropout_inplace",
)
def flash_attention_into(into: Shape, *arguments: Any, out: Any, **__: Any) -> Cost:
    """Return the cost of `flash_attention_forward`, whose output is written to the first argument."""
    return flash_attention_forward(*arguments, out=out)


@register_op_cost("flash_attn::_flash_attn_forward")
def flash_attn(query: Shape, key: Shape, value: Shape, dropout_p: float = 0.0, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost of dense attention."""
    return _attend_samples(query, key, value, None, 0, 0, is_dropped=bool(dropout_p))


@register_by_name("aten::_efficient_attention_forward")
def efficient_attention_forward(
    *,
    query: Shape,
    key: Shape,
    value: Shape,
    bias: Shape | None,
    cum_seq_q: Shape | None,
    max_q: int | None,
    max_k: int | None,
    dropout_p: float,
    out: Any,
    **_: Any,
) -> Cost:
    """Return the cost, with a mask; samples one after the other have a batch dimension of 1 before their rows."""
    if cum_seq_q is not None:
        query, key, value = (Shape(x[1:]) for x in (query, key, value))
    effects = {"is_masked": _is_added(bias), "is_dropped": bool(dropout_p)}
    return _attend_samples(query, key, value, cum_seq_q, max_q or 0, max_k or 0, **effects)


@register_by_name("aten::_cudnn_attention_forward")
def cudnn_attention_forward(
    *,
    query: Shape,
    key: Shape,
    value: Shape,
    attn_mask: Shape | None,
    cum_seq_q: Shape | None,
    max_q: int,
    max_k: int,
    dropout_p: float = 0.0,
    out: Any,
    **_: Any,
) -> Cost:
    """Return the cost, with a mask; in a dense one the heads come before the length."""
    effects = {"is_masked": _is_added(attn_mask), "is_dropped": bool(dropout_p)}
    if cum_seq_q is None:
        return attend(query, key, value, query, **effects)
    return _attend_samples(query, key, value, cum_seq_q, max_q, max_k, **effects)


@register_op_cost("aten::_transform_bias_rescale_qkv")
def transform_bias_rescale_qkv(qkv: Shape, bias: Shape, heads: int, *, out: Any) -> Cost:
    """An addition for each element of the three projections, and the scale of the queries."""
    return attention.project_queries(qkv.numel)


register_free("aten", "_fused_sdp_choice _fill_mem_eff_dropout_mask_")


# Gradients ------------------------------------------------------------------------------------------------------------


@register_by_name(
    "aten::_scaled_dot_product_cudnn_attention_backward aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_flash_attention_backward aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
)
def attention_gradient(
    *, dy: Shape, query: Shape, key: Shape, value: Shape, dropout_p: float, out: Any, **_: Any
) -> Cost:
    """Return the cost of the gradients by queries, keys and values, of batch * heads * L * S scores."""
    scores = Shape(dy[:-1]).numel * key[-2]
    return attention.attention_gradient(scores, query[-1], value[-1], bool(dropout_p))


@register_by_name("aten::_flash_attention_backward", "aten::_efficient_attention_backward")
def samples_gradient(
    *,
    query: Shape,
    key: Shape,
    value: Shape,
    cum_seq_q: Shape | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    out: Any,
    **_: Any,
) -> Cost:
    """Return the cost of the gradients of ``(batch, L, heads, E)``, or of samples one after the other.

    Samples count as if all had as many scores as the longest: padding is data.
    """
    dense_scores = Shape(query[:-1]).numel * key[-3]
    scores = dense_scores if cum_seq_q is None else (cum_seq_q[0] - 1) * query[-2] * max_q * max_k
    return attention.attention_gradient(scores, query[-1], value[-1], bool(dropout_p))


@register_by_name("aten::_cudnn_attention_backward")
def cudnn_attention_gradient(*, cum_seq_q: Shape | None, out: Any, **arguments: Any) -> Cost:
    """Return the cost of the gradients; in dense attention the heads come before the length."""
    if cum_seq_q is None:
        return attention_gradient(out=out, **arguments)
    return samples_gradient(cum_seq_q=cum_seq_q, out=out, **arguments)
