"""Attention as one primitive: the kernels of cuDNN. Elsewhere JAX composes attention of other primitives."""

from __future__ import annotations

from profilerkit.costs import attention

from .registry import OPERATORS, Cost, PrimitiveCall, register_uncounted

register_uncounted(
    "its operands are narrow floats with scales",
    *(f"dot_product_attention_fp8_{which}{form}" for which in ("fwd", "bwd") for form in ("", "_wrapper")),
)

#: The operand with the pages of the keys, of ``_dot_product_attention_fwd`` in ``jax/_src/cudnn``; empty without pages.
_PAGE_TABLE = 8


def _sizes(call: PrimitiveCall) -> tuple[int, int, int]:
    """Return the number of scores, and the widths of a key and a value.

    The layout is ``(batch, length, heads, width)``, or ``(batch, heads, length, width)`` if the parameter says so.
    Keys in pages have the length of a page, and a table ``(batch, 1, pages, 1)`` of the pages of a sequence.
    """
    query, key, value = call.inputs[0], call.inputs[1], call.inputs[2]
    by_heads = int(call.params["layout"]) == 1
    length, heads = (2, 1) if by_heads else (1, 2)
    table = call.inputs[_PAGE_TABLE] if len(call.inputs) > _PAGE_TABLE else None
    pages = table[2] if table is not None and len(table) == 4 else 1
    return query[0] * query[heads] * query[length] * pages * key[length], query[3], value[3]


@OPERATORS.register_all("dot_product_attention_fwd", "dot_product_attention_fwd_wrapper")
def dot_product_attention(call: PrimitiveCall) -> Cost:
    """The dense products, for any mask; a bias is added to each score, and dropout scales each."""
    scores, width, value_width = _sizes(call)
    has_bias = bool(call.params["variadic_args"][0])
    return attention.attention(scores, width, value_width, has_bias, call.params["dropout_rate"] > 0)


@OPERATORS.register_all("dot_product_attention_bwd", "dot_product_attention_bwd_wrapper")
def dot_product_attention_gradient(call: PrimitiveCall) -> Cost:
    """The gradients by queries, keys and values."""
    return attention.attention_gradient(*_sizes(call), has_dropout=call.params["dropout_rate"] > 0)
