"""Losses: which operator goes to which formula."""

from __future__ import annotations

from profilerkit.costs import activation, loss

from .registry import Cost, NodeCall, register_op_cost


@register_op_cost("NegativeLogLikelihoodLoss")
def negative_log_likelihood(call: NodeCall) -> Cost:
    """One addition for each target."""
    return loss.negative_log_likelihood(call.inputs[1].numel)


@register_op_cost("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(call: NodeCall) -> Cost:
    """The logarithm of the softmax, and one addition for each target."""
    likelihood = loss.negative_log_likelihood(call.inputs[1].numel)
    return activation.softmax(call.inputs[0].numel, log=True).plus(likelihood)
