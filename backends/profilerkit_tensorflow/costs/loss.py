"""Losses that are one operator; the others are spelt out in TensorFlow, and count as what they are made of."""

from __future__ import annotations

from .registry import Cost, OpCall, register_op_cost


@register_op_cost("SoftmaxCrossEntropyWithLogits")
def cross_entropy(call: OpCall) -> Cost:
    """``-sum(t * log_softmax(x))``: 5 + 2 for each element; and ``softmax(x) - t``, which it returns too: 1."""
    return Cost(0, 8 * call.outputs[1].numel)


@register_op_cost("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(call: OpCall) -> Cost:
    """``-log_softmax(x)[t]``: 5 for each element and 1 for each target.

    The gradient, which it returns too, is the softmax less 1 at the target: one more for each target.
    """
    return Cost(0, 5 * call.inputs[0].numel + 2 * call.inputs[1].numel)
