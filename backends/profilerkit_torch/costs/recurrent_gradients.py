"""Gradients of recurrent layers, all layers and directions in one operator: which goes to which formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.costs import recurrent

from .recurrent import MODES, count_elements, count_library_elements
from .registry import Cost, Shape, register_op_cost, register_op_costs


def _count_all_gradients(kind: str, weights: Sequence[Shape], x: Shape, units: int) -> Cost:
    """Return the cost of the gradients by inputs, states and weights: twice that of the forward pass."""
    matrices, biases = count_elements(weights, 2), count_elements(weights, 1)
    return recurrent.layers_gradient(kind, Shape(x[:-1]).numel, matrices, biases, units)


@register_op_cost("aten::mkldnn_rnn_layer_backward")
def onednn_layer_gradient(
    x: Shape,
    input_weight: Shape,
    hidden_weight: Shape,
    input_bias: Shape,
    hidden_bias: Shape,
    hx: Any,
    cx: Any,
    y: Any,
    hy: Any,
    cy: Any,
    dy: Any,
    dhy: Any,
    dcy: Any,
    reverse: Any,
    mode: int,
    units: int,
    layers: int,
    has_biases: bool,
    *_: Any,
    out: Any,
) -> Cost:
    """One layer in one direction; this kernel returns every gradient always."""
    weights = (input_weight, hidden_weight, input_bias, hidden_bias) if has_biases else (input_weight, hidden_weight)
    return _count_all_gradients(MODES[mode], weights, x, units)


@register_op_costs("aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward")
def library_gradient(
    x: Shape,
    weights: Sequence[Shape],
    per_cell: int,
    buffer: Any,
    hx: Shape,
    cx: Any,
    y: Any,
    dy: Any,
    dhy: Any,
    dcy: Any,
    mode: int,
    units: int,
    *arguments: Any,
    out: Any,
) -> Cost:
    """All layers and directions; each has ``per_cell`` weights, the input's and the state's matrix first.

    Of the further arguments, of which cuDNN has one more, the last five are: whether there are two directions, batch
    sizes, the state of dropout, the reserve of the forward pass, and the mask of gradients to return.
    """
    bidirectional, *_, (by_input, by_state, _, by_weights) = arguments[-5:]
    positions, samples = Shape(x[:-1]).numel, hx[1]
    omitted = 0
    if not by_input:
        first_layer = weights[: (1 + bidirectional) * per_cell]
        omitted += sum(weight.numel for weight in first_layer[::per_cell]) * positions
    if not by_state:
        omitted += sum(weight.numel for weight in weights[1::per_cell]) * samples
    matrices, biases = count_library_elements(weights, per_cell)
    cells = len(weights) // per_cell
    return recurrent.layers_gradient(MODES[mode], positions, matrices, biases, cells * units, bool(by_weights), omitted)


@register_op_cost("aten::lstm_mps_backward")
def metal_gradient(
    dy: Any,
    dhy: Any,
    dcy: Any,
    z: Any,
    states: Any,
    x: Shape,
    outputs: Any,
    hx: Sequence[Shape],
    weights: Sequence[Shape],
    *_: Any,
    out: Any,
) -> Cost:
    """All layers and directions of an LSTM; this kernel returns every gradient always."""
    cells, units = hx[1][0], hx[1][-1]
    return _count_all_gradients("lstm", weights, x, cells * units)


@register_op_cost("aten::_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_gradient(dhy: Any, dcy: Any, cx: Shape, cy: Any, gates: Shape, has_bias: bool, *, out: Any) -> Cost:
    """Return the cost of one step's gradients; the bias takes the sum of the gates'."""
    return recurrent.lstm_cell_gradient(cx.numel, gates.numel * has_bias, dcy is not None)


@register_op_cost("aten::_thnn_fused_gru_cell_backward")
def gru_cell_gradient(dhy: Shape, gates: Any, has_bias: bool, *, out: Any) -> Cost:
    """Return the cost of one step's gradients."""
    return recurrent.gru_cell_gradient(dhy.numel, bool(has_bias))
