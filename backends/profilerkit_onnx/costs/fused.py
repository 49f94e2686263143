"""Activations that onnxruntime fuses with what comes before them: which name goes to which formula."""

from __future__ import annotations

from profilerkit.costs import activation

from .registry import Cost, NodeCall, UnknownCostError

__all__ = ["add_activation"]

#: The activations by the names of `profilerkit.costs.activation`.
_NAMES = {
    "Clip": "relu6",
    "Elu": "elu",
    "Gelu": "gelu",
    "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_swish",
    "LeakyRelu": "leaky_relu",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
}


def add_activation(cost: Cost, call: NodeCall) -> Cost:
    """Return a cost and that of the activation which a node names, for each output element.

    Raises `UnknownCostError` for one whose cost is not known.
    """
    name = call.attribute("activation")
    if not name:
        return cost
    if _NAMES.get(name) not in activation.NAMED:
        raise UnknownCostError
    return activation.add_activation(cost, call.outputs[0].numel, _NAMES[name])
