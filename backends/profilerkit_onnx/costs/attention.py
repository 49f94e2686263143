"""Attention as one operator: ONNX's own, and those that onnxruntime's optimizer makes of a graph."""

from __future__ import annotations

from profilerkit.costs import attention, constants, matmul

from .registry import Cost, NodeCall, Shape, register_op_cost


@register_op_cost("Attention")
def scaled_dot_product(call: NodeCall) -> Cost:
    """Queries ``(batch, heads, length, width)``, or ``(batch, length, heads * width)`` with the heads as attributes.

    Earlier keys and values are joined with the new ones. A soft cap is a division, a tanh and a product a score.
    """
    query, key, value = call.inputs[0], call.inputs[1], call.inputs[2]
    past = call.inputs[4][2] if call.has_input(4) else 0
    if len(query) == 4:
        batch, heads, length, width = query
        keys, value_width = key[2] + past, value[3]
    else:
        batch, length, heads = query[0], query[1], call.attribute("q_num_heads")
        keys, width = key[1] + past, query[2] // heads
        value_width = value[2] // call.attribute("kv_num_heads")
    scores = batch * heads * length * keys
    cost = attention.attention(scores, width, value_width, call.has_input(3))
    if not call.attribute("softcap", 0.0):
        return cost
    return cost.plus(Cost(0, scores * (constants.DIVIDE + constants.TANH + constants.MULTIPLY)))


@register_op_cost("com.microsoft::Attention")
def attention_with_projections(call: NodeCall) -> Cost:
    """One product for the projections of queries, keys and values, with their bias; then attention between them."""
    x, weight = call.inputs[0], call.inputs[1]
    batch, length = x[0], x[1]
    heads = call.attribute("num_heads")
    sizes = call.attribute("qkv_hidden_sizes") or [weight[1] // 3] * 3
    past = call.inputs[4][3] if call.has_input(4) else 0
    projected = batch * length * weight[1]
    scores = batch * heads * length * (length + past)
    mask = call.has_input(3) or call.has_input(5)
    attending = attention.attention(scores, sizes[0] // heads, sizes[2] // heads, mask)
    return matmul.product(projected * weight[0], projected if call.has_input(2) else 0).plus(attending)


@register_op_cost("com.microsoft::MultiHeadAttention")
def multi_head_attention(call: NodeCall) -> Cost:
    """Queries ``(batch, length, heads * width)``; keys and values likewise, or ``(batch, heads, length, width)``."""
    query, key, value = call.inputs[0], call.inputs[1], call.inputs[2]
    heads = call.attribute("num_heads")
    keys, value_width = (key[2], value[3]) if len(key) == 4 else (key[1], value[2] // heads)
    past = call.inputs[6][2] if call.has_input(6) else 0
    scores = query[0] * heads * query[1] * (keys + past)
    biased = sum(Shape(shape).numel for shape in (query, key, value)) if call.has_input(3) else 0
    mask = call.has_input(4) or call.has_input(5)
    return attention.attention(scores, query[2] // heads, value_width, mask).plus(matmul.product(0, biased))
