"""Recurrent layers that are one operator; in loops over steps, the operators of the body count."""

from __future__ import annotations

import numpy as np

from profilerkit.costs import recurrent

from .registry import Cost, OpCall, Shape, register_free, register_op_cost, register_op_costs


@register_op_costs("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
def cudnn_rnn(call: OpCall) -> Cost:
    """All layers and directions in one operator, each with two biases for each gate, as cuDNN has them.

    The input is ``(steps, batch, features)``, or with the batch first; each state ``(layers * directions, batch,
    units)``. Of each sequence the steps up to its length count, where ``CudnnRNNV3`` is given lengths that are known;
    else padding counts like data.
    """
    kind = call.attribute("rnn_mode")
    gates = recurrent.GATES[kind]
    x, hidden = call.inputs[0], call.inputs[1]
    cells, returned = hidden[0], hidden[-1]
    projected = bool(call.attribute("num_proj"))
    units = call.inputs[2][-1] if projected else returned
    directions = 2 if call.attribute("direction") == "bidirectional" else 1
    skips = call.attribute("input_mode") == "skip_input"  # the first layer takes its input as it is
    features = [0 if skips else x[-1]] + [returned * directions] * (cells // directions - 1)
    matrices = directions * sum(gates * units * (inputs + returned) for inputs in features)
    matrices += cells * units * returned * projected
    biases = 2 * gates * cells * units
    steps, samples = x[:2] if call.type != "CudnnRNNV3" or call.attribute("time_major") else x[1::-1]
    lengths = call.value(4) if call.type == "CudnnRNNV3" else None
    positions = steps * samples if lengths is None else int(np.clip(lengths, 0, steps).sum())
    return recurrent.layers(kind, positions, matrices, biases, cells * units)


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
