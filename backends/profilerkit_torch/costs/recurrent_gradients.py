"""Gradients of recurrent layers, all layers and directions in one operator: which goes to which formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.costs import recurrent

from .recurrent import MODES, count_elements, count_library_elements
from .registry import Cost, Shape, register_by_name, register_op_cost


def _count_all_gradients(kind: str, weights: Sequence[Shape], x: Shape, units: int) -> Cost:
    """Return the cost of the gradients by inputs, states and weights: twice that of the forward pass."""
    matrices, biases = count_elements(weights, 2), count_elements(weights, 1)
    return recurrent.layers_gradient(kind, Shape(x[:-1]).numel, matrices, biases, units)


@register_by_name("aten::mkldnn_rnn_layer_backward")
def onednn_layer_gradient(
    *,
    x: Shape,
    weight1: Shape,
    weight2: Shape,
    weight3: Shape,
    weight4: Shape,
    mode: int,
    hidden_size: int,
    has_biases: bool,
    out: Any,
    **_: Any,
) -> Cost:
    """One layer in one direction; this kernel returns every gradient always."""
    weights = (weight1, weight2, weight3, weight4) if has_biases else (weight1, weight2)
    return _count_all_gradients(MODES[mode], weights, x, hidden_size)


@register_by_name("aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward")
def library_gradient(
    *,
    x: Shape,
    weight: Sequence[Shape],
    weight_stride0: int,
    hx: Shape,
    mode: int,
    hidden_size: int,
    bidirectional: bool,
    output_mask: Sequence[bool],
    out: Any,
    **_: Any,
) -> Cost:
    """All layers and directions; each has ``weight_stride0`` weights, the input's and the state's matrix first."""
    by_input, by_state, _cells, by_weights = output_mask
    positions, samples = Shape(x[:-1]).numel, hx[1]
    omitted = 0
    if not by_input:
        first_layer = weight[: (1 + bidirectional) * weight_stride0]
        omitted += sum(matrix.numel for matrix in first_layer[::weight_stride0]) * positions
    if not by_state:
        omitted += sum(matrix.numel for matrix in weight[1::weight_stride0]) * samples
    matrices, biases = count_library_elements(weight, weight_stride0)
    units = len(weight) // weight_stride0 * hidden_size
    return recurrent.layers_gradient(MODES[mode], positions, matrices, biases, units, bool(by_weights), omitted)


@register_by_name("aten::lstm_mps_backward")
def metal_gradient(*, x: Shape, hx: Sequence[Shape], params: Sequence[Shape], out: Any, **_: Any) -> Cost:
    """All layers and directions of an LSTM; this kernel returns every gradient always."""
    cells, units = hx[1][0], hx[1][-1]
    return _count_all_gradients("lstm", params, x, cells * units)


@register_op_cost("aten::_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_gradient(dhy: Any, dcy: Any, cx: Shape, cy: Any, gates: Shape, has_bias: bool, *, out: Any) -> Cost:
    """Return the cost of one step's gradients; the bias takes the sum of the gates'."""
    return recurrent.lstm_cell_gradient(cx.numel, gates.numel * has_bias, dcy is not None)


@register_op_cost("aten::_thnn_fused_gru_cell_backward")
def gru_cell_gradient(dhy: Shape, gates: Any, has_bias: bool, *, out: Any) -> Cost:
    """Return the cost of one step's gradients."""
    return recurrent.gru_cell_gradient(dhy.numel, bool(has_bias))
