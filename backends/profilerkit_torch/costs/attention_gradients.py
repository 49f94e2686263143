"""Gradients of attention in torch's own fused operators: which operator goes to which formula."""

from __future__ import annotations

from typing import Any

from profilerkit.costs import attention

from .attention import has_dropout
from .registry import Cost, Shape, register_op_cost, register_op_costs


@register_op_costs(
    "aten::_scaled_dot_product_cudnn_attention_backward aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_flash_attention_backward aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
)
def attention_gradient(dy: Shape, query: Shape, key: Shape, value: Shape, *further: Any, out: Any, **__: Any) -> Cost:
    """Return the cost of the gradients by queries, keys and values, of batch * heads * L * S scores."""
    scores = Shape(dy[:-1]).numel * key[-2]
    return attention.attention_gradient(scores, query[-1], value[-1], has_dropout(*further))


@register_op_costs("aten::_flash_attention_backward", "aten::_efficient_attention_backward")
def samples_gradient(
    dy: Shape,
    query: Shape,
    key: Shape,
    value: Shape,
    y_or_bias: Any,
    sums_or_y: Any,
    starts: Shape | None,
    starts_key: Any,
    longest: int,
    longest_key: int,
    *further: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """Return the cost of the gradients of ``(batch, L, heads, E)``, or of samples one after the other."""
    return _differentiate_samples(query, key, value, starts, longest * longest_key, has_dropout(*further))


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
    *further: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """Return the cost of the gradients; in dense attention the heads come before the length."""
    if starts is None:
        return attention_gradient(dy, query, key, value, *further, out=out)
    return _differentiate_samples(query, key, value, starts, longest * longest_key, has_dropout(*further))


def _differentiate_samples(
    query: Shape, key: Shape, value: Shape, starts: Shape | None, longest_scores: int, is_dropped: bool
) -> Cost:
    """Return the cost where the heads come last: of dense attention, or with ``starts`` of samples one after the other.

    Samples count as if all had as many scores as the longest: padding is data.
    """
    dense_scores = Shape(query[:-1]).numel * key[-3]
    scores = dense_scores if starts is None else (starts[0] - 1) * query[-2] * longest_scores
    return attention.attention_gradient(scores, query[-1], value[-1], is_dropped)
