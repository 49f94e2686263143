"""Attention in torch's own fused operators: which operator goes to which formula.

Attention that is written otherwise is made of products and a softmax, and counts as these. The dense product is counted
whatever the mask, causal ones included. A mask of numbers is added to each score; one of booleans chooses, and costs
nothing, as where it is written as ``where`` or ``masked_fill``. Samples that lie one after the other count as padded to
the longest, as shapes tell no more: as many as there are starts of samples, less one.
"""

from __future__ import annotations

from typing import Any

from profilerkit.costs import attention, constants

from .registry import Cost, Shape, register_free, register_op_cost, register_op_costs
from .shapes import BooleanShape


@register_op_cost("aten::scaled_dot_product_attention")
def dot_product_attention(
    query: Shape, key: Shape, value: Shape, attn_mask: Shape | None = None, *further: Any, out: Shape, **named: Any
) -> Cost:
    """``softmax(q @ k.T * scale + mask) @ v``: batch * heads * L * S scores, where the heads come before the length."""
    scores = Shape(out[:-1]).numel * key[-2]  # the output's dimensions: query and key may broadcast
    return attention.attention(scores, query[-1], value[-1], _is_added(attn_mask), has_dropout(*further, **named))


def has_dropout(*arguments: Any, dropout_p: float = 0.0, **_: Any) -> bool:
    """Return whether attention drops anything: of the further arguments by position the probability alone is a float.

    The scale is a keyword argument of each of torch's operators.
    """
    return any(isinstance(value, float) and value > 0 for value in (*arguments, dropout_p))


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
    "aten::_scaled_dot_product_attention_math aten::_scaled_dot_product_attention_math_for_mps",
    "aten::_scaled_dot_product_cudnn_attention aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_fused_attention_overrideable",
)
def attention_kernel(
    query: Shape, key: Shape, value: Shape, mask: Shape | None = None, *further: Any, out: Any, **named: Any
) -> Cost:
    """Return the cost of `dot_product_attention`; these return more than the output."""
    return dot_product_attention(query, key, value, mask, *further, out=out[0], **named)


@register_op_costs(
    "aten::_scaled_dot_product_flash_attention aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_triton_scaled_dot_attention",
)
def flash_attention(
    query: Shape, key: Shape, value: Shape, *further: Any, attn_mask: Shape | None = None, out: Any, **named: Any
) -> Cost:
    """Return the cost of `dot_product_attention`; the mask has a name, and some return more than the output."""
    output = out if isinstance(out, Shape) else out[0]
    return dot_product_attention(query, key, value, attn_mask, *further, out=output, **named)


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
    is_dropped = has_dropout(dropout_p)
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
    return _attend_samples(query, key, value, None, 0, 0, is_dropped=has_dropout(dropout_p))


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
    *further: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """Return the cost, with a mask; samples one after the other have a batch dimension of 1 before their rows."""
    if query_starts is not None:
        query, key, value = (Shape(x[1:]) for x in (query, key, value))
    effects = {"is_masked": _is_added(bias), "is_dropped": has_dropout(*further)}
    return _attend_samples(query, key, value, query_starts, longest_query or 0, longest_key or 0, **effects)


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
    *further: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """Return the cost, with a mask; in a dense one the heads come before the length."""
    if query_starts is None:
        return dot_product_attention(query, key, value, bias, *further, out=query)
    effects = {"is_masked": _is_added(bias), "is_dropped": has_dropout(*further)}
    return _attend_samples(query, key, value, query_starts, longest_query, longest_key, **effects)


@register_op_cost("aten::_transform_bias_rescale_qkv")
def transform_bias_rescale_qkv(qkv: Shape, bias: Shape, heads: int, *, out: Any) -> Cost:
    """An addition for each element of the three projections, and the scale of the queries."""
    return attention.project_queries(qkv.numel)


register_free("aten", "_fused_sdp_choice _fill_mem_eff_dropout_mask_")
