"""Mixtures of experts: each token goes through the ``k`` of several networks that a router prefers.

Source: the definitions of ``MoE`` and ``QMoE`` in onnxruntime, ``docs/ContribOperators.md``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from profilerkit.costs import activation, elementwise, matmul

from .registry import Cost, NodeCall, UnknownCostError, register_op_cost

#: Activations whose first product may give two numbers for each unit: the unit and its gate.
_GATED = ("swiglu", "geglu")
_MULTIPLY = elementwise.elementary("MULTIPLY")


class _Layer(NamedTuple):
    """The inputs with the weights and the biases of one product, for all experts."""

    weight: int
    bias: int


@register_op_cost("com.microsoft::MoE")
def mixture_of_experts(call: NodeCall) -> Cost:
    """A softmax over all experts, products with weights ``(experts, columns, summed)``, and a weighted sum."""
    return _choose(call, has_softmax=True).plus(_run_experts(call, _Layer(2, 3), _Layer(4, 5), _Layer(6, 7)))


@register_op_cost("com.microsoft::QMoE")
def mixture_of_packed_experts(call: NodeCall) -> Cost:
    """As ``MoE``, with weights of few bits, packed along the last dimension.

    Where an input has the weights of the sum, no softmax is computed.
    """
    if call.attribute("quant_type", "int") not in ("int", "fp4", "fp8"):
        raise UnknownCostError  # weights in another layout, or activations that are quantized too
    chosen = _choose(call, has_softmax=not call.has_input(14))
    return chosen.plus(_run_experts(call, _Layer(2, 4), _Layer(5, 7), _Layer(8, 10)))


def _choose(call: NodeCall, has_softmax: bool) -> Cost:
    """Return the cost of the weights of the chosen experts: a softmax, and maybe a division by their sum."""
    if call.attribute("use_sparse_mixer", 0):
        raise UnknownCostError
    (tokens, experts), chosen = call.inputs[1], call.attribute("k", 1)
    cost = activation.softmax(tokens * experts * has_softmax)
    if not call.attribute("normalize_routing_weights", 0):
        return cost
    return cost.plus(elementwise.add_summands(chosen, tokens)).plus(elementwise.elementary("DIVIDE")(tokens * chosen))


def _run_experts(call: NodeCall, first: _Layer, last: _Layer, beside: _Layer) -> Cost:
    """Return the cost of the networks of the chosen experts, and of the weighted sum of their results.

    The layer beside the first makes the gates, if its input is there. Else the first product of a gated activation
    makes two numbers for each unit.
    """
    *sizes, features = call.inputs[0]
    tokens, chosen = math.prod(sizes), call.attribute("k", 1)
    passes, columns = tokens * chosen, call.inputs[first.weight][1]
    if call.inputs[last.weight][1] != features:
        raise UnknownCostError  # before onnxruntime 1.23 the weights lay the other way
    has_gates_beside = call.has_input(beside.weight)
    is_fused = not has_gates_beside and call.attribute("activation_type", "relu") in _GATED
    units = columns // 2 if is_fused else columns
    cost = _multiply(call, first, passes, features, columns).plus(_multiply(call, last, passes, units, features))
    if has_gates_beside:
        cost = cost.plus(_multiply(call, beside, passes, features, units))
    cost = cost.plus(_activate(call, passes * units))
    if has_gates_beside or is_fused:
        cost = cost.plus(_MULTIPLY(passes * units))
    return cost.plus(_MULTIPLY(passes * features)).plus(elementwise.add_summands(chosen, tokens * features))


def _multiply(call: NodeCall, layer: _Layer, rows: int, summed: int, columns: int) -> Cost:
    """Return the cost of the product of a layer, and of its bias if it has one."""
    return matmul.matrix_product(rows, summed, columns, call.has_input(layer.bias))


def _activate(call: NodeCall, elements: int) -> Cost:
    """Return the cost of the activation between the products, without the product of unit and gate.

    ``swiglu`` is ``g * sigmoid(alpha * g) * (l + beta)``, of a g that is clamped from above and a clamped l.
    """
    name = call.attribute("activation_type", "relu")
    costs = {
        "geglu": activation.gelu(elements, approximate=True),
        "gelu": activation.gelu(elements, approximate=True),
        "identity": Cost(0, 0),
        "relu": activation.relu(elements),
        "relu2": activation.relu(elements).plus(elementwise.elementary("POWER")(elements)),
        "silu": activation.silu(elements),
        "swiglu": activation.silu(elements),
    }
    if name not in costs:
        raise UnknownCostError
    if name != "swiglu":
        return costs[name]
    scaled = elements * (call.attribute("activation_alpha", 1.0) != 1)
    shifted = elements * (call.attribute("activation_beta", 0.0) != 0)
    bounds = 0 if math.isinf(call.attribute("swiglu_limit", math.inf)) else 3
    cost = costs[name].plus(_MULTIPLY(scaled)).plus(elementwise.elementary("ADD")(shifted))
    return cost.plus(activation.clamp(elements, bounds=bounds))
