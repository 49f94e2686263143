"""Losses that are one operator; the others are several operators in TensorFlow, and each of these counts."""

from __future__ import annotations

from profilerkit.costs import loss

from .registry import Cost, OpCall, register_op_cost


@register_op_cost("SoftmaxCrossEntropyWithLogits")
def cross_entropy(call: OpCall) -> Cost:
    """Return the cost of the loss and of its gradient, which it returns too."""
    return loss.softmax_cross_entropy(call.outputs[1].numel)


@register_op_cost("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(call: OpCall) -> Cost:
    """Return the cost of the loss and of its gradient, which it returns too."""
    return loss.sparse_softmax_cross_entropy(call.inputs[0].numel, call.inputs[1].numel)
