"""Recurrent layers that are one operator; in loops over steps, the operators of the body count."""

from __future__ import annotations

import numpy as np

from profilerkit.costs import recurrent

from .registry import Cost, OpCall, Shape, register_free, register_op_cost, register_op_costs


@register_op_costs("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
def cudnn_rnn(call: OpCall) -> Cost:
    """All layers and directions in one operator, each with two biases for each gate, as cuDNN has them."""
    kind = call.attribute("rnn_mode")
    gates, units = recurrent.GATES[kind], _count_cudnn_units(call)
    matrices = _count_cudnn_matrix_elements(call, gates)
    return recurrent.layers(kind, _count_cudnn_positions(call), matrices, 2 * gates * units, units)


def _count_cudnn_units(call: OpCall) -> int:
    """Return the units of all layers and directions; a state is ``(layers * directions, batch, units)``."""
    state = call.inputs[2] if call.attribute("num_proj") else call.inputs[1]  # the hidden one may be projected
    cells: int = state[0]
    return cells * int(state[-1])


def _count_cudnn_matrix_elements(call: OpCall, gates: int) -> int:
    """Return the elements of the matrices of all layers and directions, those of projections included."""
    cells, _, returned = call.inputs[1]
    units = _count_cudnn_units(call) // cells
    directions = 2 if call.attribute("direction") == "bidirectional" else 1
    skips_first = call.attribute("input_mode") == "skip_input"  # the first layer takes its input as it is
    features = [0 if skips_first else call.inputs[0][-1]] + [returned * directions] * (cells // directions - 1)
    of_gates = directions * sum(gates * units * (read + returned) for read in features)
    of_projections = cells * units * returned if call.attribute("num_proj") else 0
    return int(of_gates + of_projections)


def _count_cudnn_positions(call: OpCall) -> int:
    """Return the steps of all sequences; the input is ``(steps, batch, features)``, or with the batch first.

    Of each sequence the steps up to its length count, where ``CudnnRNNV3`` is given lengths that are known; else
    padding counts like data.
    """
    steps, samples, _ = call.inputs[0]
    if call.type != "CudnnRNNV3":
        return int(steps * samples)
    if not call.attribute("time_major"):
        steps, samples = samples, steps
    lengths = call.value(4)
    return int(steps * samples) if lengths is None else int(np.clip(lengths, 0, steps).sum())


@register_op_costs("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3")
def cudnn_rnn_gradient(call: OpCall) -> Cost:
    """Twice the forward pass: once for the gradients of the inputs, once for those of the weights."""
    return cudnn_rnn(call).times(2)


def _lstm_cells(call: OpCall, positions: int, weights: Shape) -> Cost:
    peepholes, forget_bias = bool(call.attribute("use_peephole")), bool(call.attribute("forget_bias"))
    return recurrent.lstm_with_joined_product(positions, weights.numel, weights[1] // 4, peepholes, forget_bias)


@register_op_costs("BlockLSTM", "BlockLSTMV2")
def block_lstm(call: OpCall) -> Cost:
    """All steps of one layer: input ``(steps, batch, features)``, weights ``(features + units, 4 * units)``.

    It computes the steps up to the length that its first input says, where that is known.
    """
    steps, samples, _ = call.inputs[1]
    longest = call.value(0)
    steps = steps if longest is None else min(max(int(longest), 0), steps)
    return _lstm_cells(call, steps * samples, call.inputs[4])


@register_op_costs("BlockLSTMGrad", "BlockLSTMGradV2")
def block_lstm_gradient(call: OpCall) -> Cost:
    """Twice the forward pass: once for the gradients of the inputs, once for those of the weights."""
    return block_lstm(call).times(2)


@register_op_cost("LSTMBlockCell")
def lstm_block_cell(call: OpCall) -> Cost:
    """One step of one layer: input ``(batch, features)``, weights ``(features + units, 4 * units)``."""
    return _lstm_cells(call, Shape(call.inputs[0][:-1]).numel, call.inputs[3])


@register_op_cost("GRUBlockCell")
def gru_block_cell(call: OpCall) -> Cost:
    """One step of one layer, whose products of input and state are one: three biases in place of their sums."""
    batch, units = call.inputs[1]
    return recurrent.layers("gru", batch, call.inputs[2].numel + call.inputs[3].numel, 0, units)


register_free("CudnnRNNParamsSize", "CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2")
register_free("CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2")
