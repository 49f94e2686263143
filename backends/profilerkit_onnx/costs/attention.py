"""Attention as one operator: the operators of ONNX, and the operators that onnxruntime's optimizer writes.

A mask of numbers is added to each score. A mask of booleans, or of the integers 0 and 1 or lengths in place of them,
selects scores and costs nothing. Names such as ``mask, past_keys = 3, 4`` are the positions of optional inputs;
positions without a name are required inputs.
"""

from __future__ import annotations

from profilerkit.costs import attention, constants, matmul, normalization
from profilerkit.costs.numbers import is_float

from .registry import OPERATORS, Cost, NodeCall, register_op_cost

#: The inputs of attention that are masks, lengths instead of a mask, or a bias, which may hide scores like a mask.
MASKS = {
    "Attention": (3, 6),
    "com.microsoft::Attention": (3, 5),
    "com.microsoft::GroupQueryAttention": (),
    "com.microsoft::MultiHeadAttention": (4, 5),
    "com.microsoft::QAttention": (5,),
}
#: Attention in which no query attends to a later key, whatever its attributes are.
_ALWAYS_CAUSAL = "com.microsoft::GroupQueryAttention"
#: The attributes by which other operators are causal, and the attributes of a window outside which scores are hidden.
_CAUSAL, _WINDOWS = ("is_causal", "unidirectional"), ("left_window_size", "right_window_size")


def may_hide_scores(call: NodeCall) -> bool:
    """Return whether attention, one of `MASKS`, may hide scores: by a mask or bias that it reads, or by a rule."""
    is_causal = call.type == _ALWAYS_CAUSAL or any(call.attributes.get(name) for name in _CAUSAL)
    has_window = any(call.attributes.get(name, -1) >= 0 for name in _WINDOWS)  # -1 is no window
    return is_causal or has_window or any(map(call.has_input, MASKS[call.type]))


def _is_added(call: NodeCall, *indices: int) -> bool:
    """Return whether one of these inputs is a mask or bias of numbers."""
    return any(call.has_input(index) and is_float(call.input_dtypes[index]) for index in indices)


def _count_past(call: NodeCall, position: int, axis: int) -> int:
    """Return how many keys there are of earlier steps; none if that input is left out."""
    return call.inputs[position][axis] if call.has_input(position) else 0


def _count_past_in_room(call: NodeCall, position: int, axis: int, number: int) -> int:
    """Return the number of keys of earlier steps in a buffer with room for later keys; the input ``number`` has it.

    If it is not known before the model runs, all of the buffer except the present keys counts as earlier keys.
    """
    earlier = call.value(number) if call.has_input(number) else None
    return _count_past(call, position, axis) - call.inputs[0][1] if earlier is None else int(earlier.item())


@register_op_cost("Attention")
def dot_product_attention(call: NodeCall) -> Cost:
    """Queries ``(batch, heads, length, width)``, or ``(batch, length, heads * width)`` with the heads as attributes.

    Earlier keys and values are joined with the new ones.
    """
    query, key, value = call.inputs[0], call.inputs[1], call.inputs[2]
    mask, past_keys = 3, 4
    if len(query) == 4:
        batch, heads, length, width = query
        keys, value_width = key[2], value[3]
    else:
        batch, length, heads = query[0], query[1], call.attribute("q_num_heads")
        keys, width = key[1], query[2] // heads
        value_width = value[2] // call.attribute("kv_num_heads")
    scores = batch * heads * length * (keys + _count_past(call, past_keys, axis=2))
    return attention.attention(scores, width, value_width, _is_added(call, mask)).plus(_count_soft_cap(call, scores))


def _count_soft_cap(call: NodeCall, scores: int) -> Cost:
    """Return the cost of a soft cap of scores, if there is one: ``cap * tanh(score / cap)``."""
    if not call.attribute("softcap", 0.0):
        return Cost(0, 0)
    return Cost(0, scores * (constants.DIVIDE + constants.TANH + constants.MULTIPLY))


@register_op_cost("com.microsoft::Attention")
def attention_with_projections(call: NodeCall) -> Cost:
    """One product for the projections of queries, keys and values, with their bias; then attention between them."""
    bias, mask, past, attention_bias, past_length = 2, 3, 4, 5, 6
    query_width, _, value_width = call.attribute("qkv_hidden_sizes") or [call.inputs[1][1] // 3] * 3
    has_mask = _is_added(call, mask, attention_bias)
    has_room = bool(call.attribute("past_present_share_buffer", 0))
    earlier = _count_past_in_room(call, past, 3, past_length) if has_room else _count_past(call, past, axis=3)
    attending = _attend_after_projections(call, query_width, value_width, earlier, has_mask)
    return _project(call, call.has_input(bias)).plus(attending)


@register_op_cost("com.microsoft::QAttention")
def attention_on_integers(call: NodeCall) -> Cost:
    """Like ``Attention``, with quantized inputs: the products of integers count like products of floats."""
    mask, past = 5, 8
    width = call.inputs[1][1] // 3
    earlier = _count_past(call, past, axis=3)
    attending = _attend_after_projections(call, width, width, earlier, _is_added(call, mask))
    return _project(call, has_bias=True).plus(attending)


def _project(call: NodeCall, has_bias: bool) -> Cost:
    """Return the cost of a product ``(batch, length, features)`` with a weight, for all projections at once."""
    x, weight = call.inputs[0], call.inputs[1]
    projected = x[0] * x[1] * weight[1]
    return matmul.product(projected * weight[0], projected if has_bias else 0)


def _attend_after_projections(call: NodeCall, query_width: int, value_width: int, earlier: int, has_mask: bool) -> Cost:
    """Return the cost of attention after the projections, with so many earlier keys; the widths are of all heads.

    With ``do_rotary`` queries and keys are turned first: the elements of each head, or as many as an attribute says.
    """
    (batch, length, _), heads = call.inputs[0], call.attribute("num_heads")
    width = query_width // heads
    scores = batch * heads * length * (length + earlier)
    cost = attention.attention(scores, width, value_width // heads, has_mask)
    if not call.attribute("do_rotary", 0):
        return cost
    rotary_width = call.attribute("rotary_embedding_dim", 0) or width
    return cost.plus(attention.rotate(batch * length * 2 * heads * rotary_width))


@register_op_cost("com.microsoft::MultiHeadAttention")
def multi_head_attention(call: NodeCall) -> Cost:
    """Queries ``(batch, length, heads * width)``; keys and values likewise, or ``(batch, heads, length, width)``.

    Queries ``(batch, length, heads, 3, width)`` have keys and values with them, keys ``(batch, length, heads, 2,
    width)`` the values. A bias is added to each of them, but not to keys and values that come by heads.
    """
    query, heads = call.inputs[0], call.attribute("num_heads")
    bias, mask, attention_bias, past_keys, past_length = 3, 4, 5, 6, 8
    width = query[4] if len(query) == 5 else query[2] // heads
    keys, value_width, elements = query[1], width, 0
    if len(query) == 3:
        keys, value_width, elements = _read_keys_and_values(call, heads)
    has_room = call.has_input(past_length)
    past = _count_past_in_room(call, past_keys, 2, past_length) if has_room else _count_past(call, past_keys, axis=2)
    scores = query[0] * heads * query[1] * (keys + past)
    attending = attention.attention(scores, width, value_width, _is_added(call, mask, attention_bias))
    return attending.plus(matmul.product(0, query.numel + elements if call.has_input(bias) else 0))


def _read_keys_and_values(call: NodeCall, heads: int) -> tuple[int, int, int]:
    """Return the number of keys, the width of a value in one head, and the elements that a bias would be added to."""
    key = call.inputs[1]
    if len(key) == 5:
        return key[1], key[4], key.numel
    value = call.inputs[2]
    if len(key) == 4:
        return key[2], value[3], 0
    return key[1], value[2] // heads, key.numel + value.numel


@register_op_cost("com.microsoft::GroupQueryAttention")
def group_query_attention(call: NodeCall) -> Cost:
    """Queries ``(batch, length, heads * width)``, fewer heads of keys and values, also of earlier positions.

    If there is no input for keys, the queries contain keys and values. The mask of later positions is no arithmetic.
    A buffer that earlier and present keys share has the largest length: the number of keys is then read from an input,
    if it is known.
    """
    query, heads, pairs = call.inputs[0], call.attribute("num_heads"), call.attribute("kv_num_heads")
    key, past_keys, total_length, cosines, attention_bias = 1, 3, 6, 7, 10
    batch, length = query[0], query[1]
    width = query[2] // heads if call.has_input(key) else query[2] // (heads + 2 * pairs)
    total = call.value(total_length) if call.has_input(total_length) else None
    keys = length + _count_past(call, past_keys, axis=2) if total is None else int(total.item())
    scores = batch * heads * length * keys
    cost = attention.attention(scores, width, width, _is_added(call, attention_bias))
    cost = cost.plus(_count_soft_cap(call, scores))
    for norm, heads_of_norm in ((14, heads), (15, pairs)):  # weights of norms of queries and of keys
        if call.has_input(norm):
            rows = batch * length * heads_of_norm
            cost = cost.plus(normalization.rms_norm(rows * width, rows))
    if not call.attribute("do_rotary", 0):
        return cost
    turned = batch * length * (heads + pairs) * 2 * call.inputs[cosines][1]
    return cost.plus(attention.rotate(turned))


@OPERATORS.register_all("RotaryEmbedding", "com.microsoft::RotaryEmbedding")
def rotary_embedding(call: NodeCall) -> Cost:
    """Of each head, as many elements as both caches have, whose rows are half as long."""
    x, cache = call.inputs[0], call.inputs[2]
    if not call.attribute("rotary_embedding_dim", 0):
        return attention.rotate(x.numel)
    heads = call.attribute("num_heads") if len(x) == 3 else x[1]
    positions = x[0] * (x[1] if len(x) == 3 else x[2])
    return attention.rotate(positions * heads * 2 * cache[-1])
