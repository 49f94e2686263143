"""Recurrent layers that are one operator; loops over steps count as what their bodies are made of.

Each weight matrix is applied once for each step and sample. The gates cost, for each hidden unit, layer, direction,
step and sample:

- LSTM: 4 additions of the two products, 5 sigmoids and tanhs, 3 products, 1 addition: 13.
- GRU: 3 additions, 3 sigmoids and tanhs, and 5 for ``r * h`` and ``(1 - z) * n + z * h``: 11.
- RNN: 1 addition, 1 tanh (or ReLU): 2.
"""

from __future__ import annotations

from .registry import Cost, OpCall, Shape, register_free, register_op_cost

_GATE_FLOPS = {"lstm": (4, 13), "gru": (3, 11), "rnn_tanh": (1, 2), "rnn_relu": (1, 2)}


@register_op_cost("CudnnRNN")
@register_op_cost("CudnnRNNV2")
@register_op_cost("CudnnRNNV3")
def cudnn_rnn(call: OpCall) -> Cost:
    """All layers and directions in one operator, each with two biases for each gate, as cuDNN has them.

    The input is ``(steps, batch, features)``, or with the batch first; each state ``(layers * directions, batch,
    units)``. Padding of shorter sequences counts as if it were data.
    """
    gates, unit_flops = _GATE_FLOPS[call.attribute("rnn_mode")]
    x, hidden = call.inputs[0], call.inputs[1]
    cells, returned = hidden[0], hidden[-1]
    projected = bool(call.attribute("num_proj"))
    units = call.inputs[2][-1] if projected else returned
    directions = 2 if call.attribute("direction") == "bidirectional" else 1
    skips = call.attribute("input_mode") == "skip_input"  # the first layer takes its input as it is
    features = [0 if skips else x[-1]] + [returned * directions] * (cells // directions - 1)
    macs = directions * sum(gates * units * (inputs + returned) for inputs in features)
    macs += cells * units * returned * projected
    positions = Shape(x[:-1]).numel
    return Cost.of_macs(macs * positions, positions * cells * units * (2 * gates + unit_flops))


def _twice(cost: Cost) -> Cost:
    return Cost(2 * cost.macs, 2 * cost.flops)


@register_op_cost("CudnnRNNBackprop")
@register_op_cost("CudnnRNNBackpropV2")
@register_op_cost("CudnnRNNBackpropV3")
def cudnn_rnn_gradient(call: OpCall) -> Cost:
    """As much as the forward pass for the inputs' gradients, and again for the weights'."""
    return _twice(cudnn_rnn(call))


def _lstm_cells(call: OpCall, x: Shape, weights: Shape) -> Cost:
    """One product of input and state together, so that 9 operations and 4 biases are left for each unit.

    Peepholes are a product and an addition for each of three gates; the bias of the forget gate is one addition more.
    """
    positions, units = Shape(x[:-1]).numel, weights[1] // 4
    per_unit = 9 + 4 + 6 * bool(call.attribute("use_peephole")) + bool(call.attribute("forget_bias"))
    return Cost.of_macs(positions * weights.numel, positions * units * per_unit)


@register_op_cost("BlockLSTM")
@register_op_cost("BlockLSTMV2")
def block_lstm(call: OpCall) -> Cost:
    """All steps of one layer: input ``(steps, batch, features)``, weights ``(features + units, 4 * units)``."""
    return _lstm_cells(call, call.inputs[1], call.inputs[4])


@register_op_cost("BlockLSTMGrad")
@register_op_cost("BlockLSTMGradV2")
def block_lstm_gradient(call: OpCall) -> Cost:
    """As much as the forward pass for the inputs' gradients, and again for the weights'."""
    return _twice(block_lstm(call))


@register_op_cost("LSTMBlockCell")
def lstm_block_cell(call: OpCall) -> Cost:
    """One step of one layer: input ``(batch, features)``, weights ``(features + units, 4 * units)``."""
    return _lstm_cells(call, call.inputs[0], call.inputs[3])


@register_op_cost("GRUBlockCell")
def gru_block_cell(call: OpCall) -> Cost:
    """One step of one layer: 3 biases, 3 sigmoids and tanhs, and 5 for ``r * h`` and ``u * h + (1 - u) * c``."""
    batch, units = call.inputs[1]
    weights = call.inputs[2].numel + call.inputs[3].numel
    return Cost.of_macs(batch * weights, batch * units * (3 + 3 + 5))


register_free("CudnnRNNParamsSize", "CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2")
register_free("CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2")
