"""Losses that are one operator; the others are several operators in TensorFlow, and each of these counts."""

from __future__ import annotations

from profilerkit.costs import activation, loss

from .registry import Cost, OpCall, register_op_cost, register_op_costs


@register_op_cost("SoftmaxCrossEntropyWithLogits")
def cross_entropy(call: OpCall) -> Cost:
    """Return the cost of the loss and of its gradient, which it returns too."""
    return loss.softmax_cross_entropy(call.outputs[1].numel)


@register_op_cost("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(call: OpCall) -> Cost:
    """Return the cost of the loss and of its gradient, which it returns too."""
    return loss.sparse_softmax_cross_entropy(call.inputs[0].numel, call.inputs[1].numel)


@register_op_costs("CTCLoss", "CTCLossV2")
def connectionist_temporal(call: OpCall) -> Cost:
    """Return the cost of the softmax of ``(steps, batch, classes)``, of the loss, and of its gradient.

    A target of S labels has 2 * S + 1 states.
    """
    x, labels = call.inputs[0], call.inputs[2]
    steps, batch, _ = x
    states = 2 * labels.numel + batch
    probabilities = Cost(0, x.numel * activation.softmax.operations())
    gradient = loss.connectionist_temporal_gradient(steps * states, x.numel)
    return probabilities.plus(loss.connectionist_temporal(steps, states)).plus(gradient)
