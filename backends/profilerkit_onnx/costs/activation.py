"""Activations and softmax: which operator goes to which formula."""

from __future__ import annotations

from profilerkit.costs import activation, elementwise

from .registry import OPERATORS, Cost, NodeCall, UnknownCostError, register_op_cost

__all__ = ["add_activation"]

#: The activations that onnxruntime fuses with the node before them, and their names in `profilerkit.costs.activation`.
_FUSED = {
    "Celu": "elu",
    "Clip": "relu6",
    "Elu": "elu",
    "Gelu": "gelu",
    "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_swish",
    "LeakyRelu": "leaky_relu",
    "ParametricSoftplus": "parametric_softplus",
    "Relu": "relu",
    "ScaledTanh": "tanh_with_scales",
    "Selu": "elu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Tanh": "tanh",
    "ThresholdedRelu": "relu",
}

OPERATORS.register_elementwise(activation.relu, "Relu", "ThresholdedRelu")
OPERATORS.register_elementwise(activation.sigmoid, "Sigmoid")
OPERATORS.register_elementwise(activation.tanh, "Tanh")
OPERATORS.register_elementwise(activation.leaky_relu, "LeakyRelu", "PRelu")
OPERATORS.register_elementwise(activation.elu, "Elu", "Selu", "Celu")
OPERATORS.register_elementwise(activation.softplus, "Softplus")
OPERATORS.register_elementwise(activation.softsign, "Softsign")
OPERATORS.register_elementwise(activation.mish, "Mish")
OPERATORS.register_elementwise(activation.hard_sigmoid, "HardSigmoid")
OPERATORS.register_elementwise(activation.hard_swish, "HardSwish")
OPERATORS.register_elementwise(activation.softmax, "Softmax")
OPERATORS.register_elementwise(lambda elements: activation.softmax(elements, log=True), "LogSoftmax")
OPERATORS.register_elementwise(activation.gelu, "com.microsoft::Gelu")
OPERATORS.register_free("Hardmax")  # it marks where the largest element is


@register_op_cost("Gelu")
def gelu(call: NodeCall) -> Cost:
    """By erf, or approximately by tanh."""
    return activation.gelu(call.outputs[0].numel, approximate=call.attribute("approximate", "none") == "tanh")


@register_op_cost("com.microsoft::FastGelu")
def fast_gelu(call: NodeCall) -> Cost:
    """By tanh, of the sum with a bias if there is one."""
    elements = call.outputs[0].numel
    return activation.gelu(elements, approximate=True).plus(elementwise.add_summands(1 + call.has_input(1), elements))


@register_op_cost("com.microsoft::BiasGelu")
def bias_gelu(call: NodeCall) -> Cost:
    """``gelu(x + bias)``."""
    elements = call.outputs[0].numel
    return activation.gelu(elements).plus(elementwise.add_summands(2, elements))


@register_op_cost("com.microsoft::BiasSoftmax")
def bias_softmax(call: NodeCall) -> Cost:
    """``softmax(x + bias)``."""
    elements = call.outputs[0].numel
    return activation.softmax(elements).plus(elementwise.add_summands(2, elements))


@register_op_cost("com.microsoft::BiasAdd")
def bias_add(call: NodeCall) -> Cost:
    """``x + bias + skip``."""
    return elementwise.add_summands(3, call.outputs[0].numel)


@register_op_cost("com.microsoft::QuickGelu")
def quick_gelu(call: NodeCall) -> Cost:
    """``x * sigmoid(alpha * x)``; alpha is 1.702 unless the node says otherwise."""
    return _count_silu(call, 1.702)


@register_op_cost("Swish")
def swish(call: NodeCall) -> Cost:
    """``x * sigmoid(alpha * x)``."""
    return _count_silu(call, 1.0)


def _count_silu(call: NodeCall, alpha: float) -> Cost:
    """Return the cost of ``x * sigmoid(alpha * x)`` by the default of alpha; the product with an alpha of 1 is none."""
    elements = call.outputs[0].numel
    scaled = call.attribute("alpha", alpha) != 1.0
    return activation.silu(elements).plus(elementwise.elementary("MULTIPLY")(elements if scaled else 0))


@register_op_cost("Clip")
def clip(call: NodeCall) -> Cost:
    """A comparison for each bound; before operator set 11 the bounds are attributes."""
    bounds = [call.has_input(1) or "min" in call.attributes, call.has_input(2) or "max" in call.attributes]
    return activation.clamp(call.outputs[0].numel, bounds=sum(bounds))


@register_op_cost("Shrink")
def shrink(call: NodeCall) -> Cost:
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``; soft with a bias, hard without."""
    return activation.shrink(call.outputs[0].numel, shifts=call.attribute("bias", 0.0) != 0)


@register_op_cost("Dropout")
def dropout(call: NodeCall) -> Cost:
    """Nothing, unless the model is told to train: that is an input from operator set 12 on."""
    trains = call.value(2) if call.has_input(2) else False
    if trains is None:
        raise UnknownCostError
    return activation.dropout(call.outputs[0].numel if bool(trains) else 0)


def add_activation(cost: Cost, call: NodeCall) -> Cost:
    """Return a cost plus the cost of the activation that onnxruntime has fused with a node, for all output elements.

    Raises `UnknownCostError` for an activation without a known cost.
    """
    name = call.attribute("activation")
    if not name:
        return cost
    if _FUSED.get(name) not in activation.NAMED:
        raise UnknownCostError
    return activation.add_activation(cost, call.outputs[0].numel, _FUSED[name])
