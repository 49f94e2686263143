"""Activations and softmax: which operator goes to which formula."""

from __future__ import annotations

from profilerkit.backend_kit.operator_costs import PerElements
from profilerkit.costs import activation, elementwise

from .registry import OPERATORS, Cost, NodeCall, UnknownCostError, register_op_cost

__all__ = ["add_activation"]

#: Activations, by the names of their operators.
_ACTIVATIONS: dict[str, PerElements] = {
    **dict.fromkeys(("Celu", "Elu", "Selu"), activation.elu),
    **dict.fromkeys(("LeakyRelu", "PRelu"), activation.leaky_relu),
    **dict.fromkeys(("Relu", "ThresholdedRelu"), activation.relu),
    "HardSigmoid": activation.hard_sigmoid,
    "HardSwish": activation.hard_swish,
    "Mish": activation.mish,
    "Sigmoid": activation.sigmoid,
    "Softplus": activation.softplus,
    "Softsign": activation.softsign,
    "Tanh": activation.tanh,
}
for _name, _formula in _ACTIVATIONS.items():
    OPERATORS.register_elementwise(_formula, _name)
#: The activations that onnxruntime fuses with the node before them, by its names.
_FUSED: dict[str, PerElements] = {
    **_ACTIVATIONS,
    "Clip": activation.clamp,
    "Gelu": activation.gelu,
    "ParametricSoftplus": activation.parametric_softplus,
    "ScaledTanh": activation.tanh_with_scales,
}
OPERATORS.register_elementwise(activation.gelu, "com.microsoft::Gelu")
OPERATORS.register_elementwise(activation.softmax, "Softmax")
OPERATORS.register_elementwise(lambda elements: activation.softmax(elements, log=True), "LogSoftmax")
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


@OPERATORS.register_all("Swish", "com.microsoft::QuickGelu")
def swish(call: NodeCall) -> Cost:
    """``x * sigmoid(alpha * x)``; the product with an alpha of 1, the default in the standard, is none."""
    elements = call.outputs[0].numel
    alpha = call.attribute("alpha", 1.702 if call.type == "com.microsoft::QuickGelu" else 1.0)
    return activation.silu(elements).plus(elementwise.elementary("MULTIPLY")(elements * (alpha != 1)))


@register_op_cost("SwiGLU")
def swiglu(call: NodeCall) -> Cost:
    """``a * sigmoid(alpha * a) * b``: `swish`, and a product."""
    return swish(call).plus(elementwise.elementary("MULTIPLY")(call.outputs[0].numel))


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
    if name not in _FUSED:
        raise UnknownCostError
    return cost.plus(_FUSED[name](call.outputs[0].numel))
