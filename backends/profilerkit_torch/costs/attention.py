"""Attention in torch's own fused operators, also with the layer around it: which operator goes to which formula.

Other attention is composed of products and a softmax, and counts as these. The dense product is counted for every mask,
including causal masks. A mask of numbers is added to each score; a mask of booleans chooses, and costs nothing, like
``where`` or ``masked_fill``. Samples that lie one after the other count as padded to the longest, because shapes tell
no more; there are as many samples as starts of samples, less one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from profilerkit.costs import attention, constants

from .families import register_by_name, register_free, register_per_element
from .registry import Cost, Shape
from .shapes import BooleanShape

F = TypeVar("F", bound="Callable[..., Cost]")

#: The operators that are attention or its gradients, whole.
ATTENTION: set[str] = set()


def _register_attention(*names: str) -> Callable[[F], F]:
    """Give operators a formula by name, and note that they are attention."""
    ATTENTION.update(" ".join(names).split())
    return register_by_name(*names)


@_register_attention(
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

    Torch converts a mask of booleans to numbers before it adds them.
    """
    added = Cost(0, scores * constants.ADD)
    if operator.startswith("aten._scaled_dot_product"):
        return Cost(cost.macs, cost.flops - added.flops)
    return Cost(0, 0) if operator.startswith("aten.add") and cost == added else cost


# Kernels whose heads come after the length ----------------------------------------------------------------------------
#
# ``(batch, length, heads, E)``; samples one after the other are ``(rows, heads, E)``, or ``(1, rows, heads, E)``.


@_register_attention(
    "aten::_flash_attention_forward aten::_flash_attention_forward_no_dropout_inplace",
    "aten::_cudnn_attention_forward_no_dropout_inplace aten::_efficient_attention_forward",
    "torch_attn::_varlen_attn torch_attn::_varlen_attn_out",
    "flash_attn::_flash_attn_forward flash_attn::_flash_attn_varlen_forward",
)
def attend_heads_last(
    *,
    query: Shape,
    key: Shape,
    value: Shape,
    bias: Shape | None = None,
    attn_mask: Shape | None = None,
    dropout_p: float = 0.0,
    out: Any,
    **samples: Any,
) -> Cost:
    """Return the cost of attention, dense or of samples one after the other; ``bias`` and ``attn_mask`` are masks."""
    scores = _count_scores(query, key, **samples)
    is_masked = _is_added(bias) or _is_added(attn_mask)
    return attention.attention(scores, query[-1], value[-1], is_masked, bool(dropout_p))


def _count_scores(
    query: Shape,
    key: Shape,
    cum_seq_q: Shape | None = None,
    max_q: int | None = None,
    max_k: int | None = None,
    **_: Any,
) -> int:
    """Return the number of scores; as if all samples had as many as the longest."""
    if cum_seq_q is None or max_q is None or max_k is None:
        return Shape(query[:-1]).numel * key[-3]
    return int((cum_seq_q[0] - 1) * query[-2] * max_q * max_k)


@_register_attention("aten::_cudnn_attention_forward")
def cudnn_attention_forward(*, cum_seq_q: Shape | None, out: Any, **arguments: Any) -> Cost:
    """Return the cost of attention; in dense attention the heads come before the length."""
    if cum_seq_q is None:
        return dot_product_attention(out=out, **arguments)
    return attend_heads_last(cum_seq_q=cum_seq_q, out=out, **arguments)


# An addition for each element of the three projections, and the scale of the queries.
register_per_element({"_transform_bias_rescale_qkv": attention.project_queries})
register_free("aten", "_fused_sdp_choice _fill_mem_eff_dropout_mask_")


# Gradients ------------------------------------------------------------------------------------------------------------


@_register_attention(
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


@_register_attention(
    "aten::_flash_attention_backward aten::_efficient_attention_backward torch_attn::_varlen_attn_backward"
)
def gradient_with_heads_last(
    *, query: Shape, key: Shape, value: Shape, dropout_p: float = 0.0, out: Any, **samples: Any
) -> Cost:
    """Return the cost of the gradients, dense or of samples one after the other."""
    scores = _count_scores(query, key, **samples)
    return attention.attention_gradient(scores, query[-1], value[-1], bool(dropout_p))


@_register_attention("aten::_cudnn_attention_backward")
def cudnn_attention_gradient(*, cum_seq_q: Shape | None, out: Any, **arguments: Any) -> Cost:
    """Return the cost of the gradients; in dense attention the heads come before the length."""
    if cum_seq_q is None:
        return attention_gradient(out=out, **arguments)
    return gradient_with_heads_last(cum_seq_q=cum_seq_q, out=out, **arguments)


# Layers that torch runs as one operator in inference: their cost is the sum of their parts ----------------------------


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
