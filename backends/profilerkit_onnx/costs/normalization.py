"""Normalization: which operator goes to which formula."""

from __future__ import annotations

from profilerkit.costs import activation, elementwise, normalization, reduction

from .registry import OPERATORS, Cost, NodeCall, Shape, register_op_cost


@register_op_cost("BatchNormalization")
def batch_norm(call: NodeCall) -> Cost:
    """A scale and a shift with known statistics; with ``training_mode``, with the statistics of the batch."""
    elements = call.inputs[0].numel
    if call.attribute("training_mode", 0):
        return normalization.normalize(elements)
    return normalization.normalize_with_known_statistics(elements)


@register_op_cost("LayerNormalization")
def layer_norm(call: NodeCall) -> Cost:
    """With the scale, which every call has, and a shift if there is one."""
    return normalization.normalize(call.inputs[0].numel, scale=True, shift=call.has_input(2))


@OPERATORS.register_all("InstanceNormalization", "GroupNormalization")
def group_norm(call: NodeCall) -> Cost:
    """With scale and shift, which every call has."""
    return normalization.normalize(call.inputs[0].numel)


@register_op_cost("com.microsoft::GroupNorm")
def group_norm_and_activation(call: NodeCall) -> Cost:
    """With scale and shift, which every call has, and a SiLU if ``activation`` is 1."""
    elements = call.inputs[0].numel
    cost = normalization.normalize(elements)
    return cost.plus(activation.silu(elements)) if call.attribute("activation", 0) == 1 else cost


@register_op_cost("com.microsoft::SkipGroupNorm")
def skip_group_norm(call: NodeCall) -> Cost:
    """``group_norm(x + skip + bias)``, and a SiLU if ``activation`` is 1."""
    summed = elementwise.add_summands(2 + call.has_input(4), call.inputs[0].numel)
    return summed.plus(group_norm_and_activation(call))


@register_op_cost("MeanVarianceNormalization")
def normalize_alone(call: NodeCall) -> Cost:
    """Without scale and shift."""
    return normalization.normalize(call.inputs[0].numel, scale=False, shift=False)


@OPERATORS.register_all("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(call: NodeCall) -> Cost:
    """By the root of the mean square over the dimensions from ``axis`` on."""
    x = call.inputs[0]
    axis = call.attribute("axis", -1)
    return normalization.rms_norm(x.numel, Shape(x[:axis]).numel)


@register_op_cost("com.microsoft::SkipLayerNormalization")
def skip_layer_norm(call: NodeCall) -> Cost:
    """``normalize(x + skip + bias)``."""
    elements = call.inputs[0].numel
    summed = elementwise.add_summands(2 + call.has_input(4), elements)
    return summed.plus(normalization.normalize(elements, scale=True, shift=call.has_input(3)))


@register_op_cost("com.microsoft::SkipSimplifiedLayerNormalization")
def skip_rms_norm(call: NodeCall) -> Cost:
    """``rms_norm(x + skip + bias)`` over the last dimension."""
    x = call.inputs[0]
    summed = elementwise.add_summands(2 + call.has_input(3), x.numel)
    return summed.plus(normalization.rms_norm(x.numel, Shape(x[:-1]).numel))


@register_op_cost("com.microsoft::EmbedLayerNormalization")
def normalize_embeddings(call: NodeCall) -> Cost:
    """``normalize(words + positions + segments)``, of rows that are looked up; a model may have no segments."""
    elements = call.outputs[0].numel
    return elementwise.add_summands(2 + call.has_input(4), elements).plus(normalization.normalize(elements))


@register_op_cost("LRN")
def local_response(call: NodeCall) -> Cost:
    """A window of ``size`` channels."""
    return normalization.local_response(call.inputs[0].numel, call.attribute("size"))


@register_op_cost("LpNormalization")
def lp_norm(call: NodeCall) -> Cost:
    """``x / norm(x)``."""
    elements = call.inputs[0].numel
    return reduction.norm(elements).plus(elementwise.elementary("DIVIDE")(elements))
