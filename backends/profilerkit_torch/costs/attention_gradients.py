"""Gradients of attention in torch's own fused operators: which operator goes to which formula."""

from __future__ import annotations

from typing import Any

from profilerkit.costs import attention

from .registry import Cost, Shape, register_by_name


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
