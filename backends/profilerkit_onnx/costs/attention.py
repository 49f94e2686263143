"""Attention as one operator: ONNX's own, and those that onnxruntime's optimizer makes of a graph.

A mask of numbers is added to each score. One of booleans, or of the integers 0 and 1 or lengths in place of them,
selects scores and costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from profilerkit.costs import attention, constants, matmul
from profilerkit.costs.numbers import is_float

from .registry import Cost, NodeCall, register_op_cost


def _is_added(call: NodeCall, *indices: int) -> bool:
    """Return whether one of these inputs is a mask or bias of numbers."""
    return any(call.has_input(index) and is_float(call.input_dtypes[index]) for index in indices)


@register_op_cost("Attention")
def dot_product_attention(call: NodeCall) -> Cost:
    """Queries ``(batch, heads, length, width)``, or ``(batch, length, heads * width)`` with the heads as attributes.

    Earlier keys and values are joined with the new ones.
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
    return attention.attention(scores, width, value_width, _is_added(call, 3)).plus(_cap(call, scores))


def _cap(call: NodeCall, scores: int) -> Cost:
    """Return the soft cap of scores, where there is one: ``cap * tanh(score / cap)``."""
    if not call.attribute("softcap", 0.0):
        return Cost(0, 0)
    return Cost(0, scores * (constants.DIVIDE + constants.TANH + constants.MULTIPLY))


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
    mask = _is_added(call, 3, 5)
    attending = attention.attention(scores, sizes[0] // heads, sizes[2] // heads, mask)
    return matmul.product(projected * weight[0], projected if call.has_input(2) else 0).plus(attending)


@register_op_cost("com.microsoft::QAttention")
def attention_on_integers(call: NodeCall) -> Cost:
    """As ``Attention`` has it, of quantized inputs: the products of integers count as those of floats."""
    x, weight = call.inputs[0], call.inputs[1]
    heads, width = call.attribute("num_heads"), weight[1] // 3
    past = call.inputs[8][3] if call.has_input(8) else 0
    projected = x[0] * x[1] * weight[1]
    scores = x[0] * heads * x[1] * (x[1] + past)
    attending = attention.attention(scores, width // heads, width // heads, _is_added(call, 5))
    return matmul.product(projected * x[2], projected).plus(attending)


@register_op_cost("com.microsoft::MultiHeadAttention")
def multi_head_attention(call: NodeCall) -> Cost:
    """Queries ``(batch, length, heads * width)``; keys and values likewise, or ``(batch, heads, length, width)``.

    Queries ``(batch, length, heads, 3, width)`` have keys and values with them, keys ``(batch, length, heads, 2,
    width)`` the values.
    """
    query, heads = call.inputs[0], call.attribute("num_heads")
    if len(query) == 5:
        keys, width, value_width, joined = query[1], query[4], query[4], query.numel
    else:
        width = query[2] // heads
        keys, value_width, joined = _read_keys_and_values(call, heads)
        joined += query.numel
    past = call.inputs[6][2] if call.has_input(6) else 0
    scores = query[0] * heads * query[1] * (keys + past)
    mask = _is_added(call, 4, 5)
    biased = joined if call.has_input(3) else 0
    return attention.attention(scores, width, value_width, mask).plus(matmul.product(0, biased))


class _KeysAndValues(NamedTuple):
    """The number of keys, the width of a value in one head, and the elements of keys and values."""

    keys: int
    value_width: int
    elements: int


def _read_keys_and_values(call: NodeCall, heads: int) -> _KeysAndValues:
    key = call.inputs[1]
    if len(key) == 5:
        return _KeysAndValues(key[1], key[4], key.numel)
    value = call.inputs[2]
    keys, width = (key[2], value[3]) if len(key) == 4 else (key[1], value[2] // heads)
    return _KeysAndValues(keys, width, key.numel + value.numel)


@register_op_cost("com.microsoft::GroupQueryAttention")
def group_query_attention(call: NodeCall) -> Cost:
    """Queries ``(batch, length, heads * width)``, fewer heads of keys and values, and those of earlier positions.

    Without keys, the queries have keys and values with them. The mask that hides later positions is no arithmetic.
    """
    query, heads, pairs = call.inputs[0], call.attribute("num_heads"), call.attribute("kv_num_heads")
    batch, length = query[0], query[1]
    width = query[2] // heads if call.has_input(1) else query[2] // (heads + 2 * pairs)
    past = call.inputs[3][2] if call.has_input(3) else 0
    scores = batch * heads * length * (length + past)
    cost = attention.attention(scores, width, width, _is_added(call, 10)).plus(_cap(call, scores))
    if not call.attribute("do_rotary", 0):
        return cost
    turned = batch * length * (heads + pairs) * 2 * call.inputs[7][1]
    return cost.plus(attention.rotate(turned))


@register_op_cost("com.microsoft::RotaryEmbedding")
def rotary_embedding(call: NodeCall) -> Cost:
    """Of each head, as many elements as both caches have, whose rows are half as long."""
    x, cache = call.inputs[0], call.inputs[2]
    if not call.attribute("rotary_embedding_dim", 0):
        return attention.rotate(x.numel)
    heads = call.attribute("num_heads") if len(x) == 3 else x[1]
    positions = x[0] * (x[1] if len(x) == 3 else x[2])
    return attention.rotate(positions * heads * 2 * cache[1])
