"""Attention whose scores a mask or a rule may hide."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from .values import Value

__all__ = ["may_be_masked"]

#: The inputs of attention that are masks, lengths instead of a mask, or a bias, which may hide scores like a mask.
_MASKS = {
    "Attention": (3, 6),
    "com.microsoft::Attention": (3, 5),
    "com.microsoft::QAttention": (5,),
    "com.microsoft::MultiHeadAttention": (4, 5),
}
#: Attention in which no query attends to a later key, whatever its attributes are.
_ALWAYS_CAUSAL = ("com.microsoft::GroupQueryAttention",)
#: The attributes by which other operators are causal, and the attributes of a window outside which scores are hidden;
#: -1 is no window.
_CAUSAL, _WINDOWS = ("is_causal", "unidirectional"), ("left_window_size", "right_window_size")


def may_be_masked(operator: str, node: NodeProto, inputs: Sequence[Value | None]) -> bool:
    """Return whether a node is attention with hidden scores, maybe: by a mask or bias that it reads, or by a rule."""
    if operator in _ALWAYS_CAUSAL:
        return True
    positions = _MASKS.get(operator)
    if positions is None:
        return False
    reads_mask = any(inputs[index] is not None for index in positions if index < len(inputs))
    return reads_mask or any(
        (attribute.name in _CAUSAL and attribute.i) or (attribute.name in _WINDOWS and attribute.i >= 0)
        for attribute in node.attribute
    )
