"""Recurrent layers that are one operator; in loops over steps, the operators of the body count."""

from __future__ import annotations

from profilerkit.costs import recurrent

from .registry import Cost, OpCall, Shape, register_free, register_op_cost, register_op_costs


@register_op_costs("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
def cudnn_rnn(call: OpCall) -> Cost:
    """All layers and directions in one operator, each with two biases for each gate, as cuDNN has them.

    The input is ``(steps, batch, features)``, or with the batch first; each state ``(layers * directions, batch,
    units)``. Padding of shorter sequences counts as if it were data.
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
    return recurrent.layers(kind, Shape(x[:-1]).numel, matrices, biases, cells * units)


@register_op_costs("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3")
def cudnn_rnn_gradient(call: OpCall) -> Cost:
    """Twice the forward pass: once for the gradients of the inputs, once for those of the weights."""
    return cudnn_rnn(call).times(2)


def _lstm_cells(call: OpCall, x: Shape, weights: Shape) -> Cost:
    peepholes, forget_bias = bool(call.attribute("use_peephole")), bool(call.attribute("forget_bias"))
    return recurrent.joined_lstm(Shape(x[:-1]).numel, weights.numel, weights[1] // 4, peepholes, forget_bias)


@register_op_costs("BlockLSTM", "BlockLSTMV2")
def block_lstm(call: OpCall) -> Cost:
    """All steps of one layer: input ``(steps, batch, features)``, weights ``(features + units, 4 * units)``."""
    return _lstm_cells(call, call.inputs[1], call.inputs[4])


@register_op_costs("BlockLSTMGrad", "BlockLSTMGradV2")
def block_lstm_gradient(call: OpCall) -> Cost:
    """Twice the forward pass: once for the gradients of the inputs, once for those of the weights."""
    return block_lstm(call).times(2)


@register_op_cost("LSTMBlockCell")
def lstm_block_cell(call: OpCall) -> Cost:
    """One step of one layer: input ``(batch, features)``, weights ``(features + units, 4 * units)``."""
    return _lstm_cells(call, call.inputs[0], call.inputs[3])


@register_op_cost("GRUBlockCell")
def gru_block_cell(call: OpCall) -> Cost:
    """One step of one layer, whose products of input and state are one: three biases in place of their sums."""
    batch, units = call.inputs[1]
    return recurrent.layers("gru", batch, call.inputs[2].numel + call.inputs[3].numel, 0, units)


register_free("CudnnRNNParamsSize", "CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2")
register_free("CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2")
