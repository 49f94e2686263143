"""Recurrent layers that are one operator; in loops over steps, the operators of the body count.

A formula reads the inputs of an operator by their positions, which the comments list with their shapes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from profilerkit.costs import activation, recurrent

from .registry import Cost, OpCall, Shape, UnknownCostError, register_free, register_op_cost, register_op_costs

# cuDNN: all layers and directions in one operator ---------------------------------------------------------------------
#
# 0 input: (steps, batch, features)
# 1 hidden state: (cells, batch, returned)
# 2 cell state of an LSTM: (cells, batch, units)
# 3 parameters of all layers, one after the other
# 4 lengths of the sequences: (batch,), of version 3 alone
#
# Version 3 alone has ``time_major``; where it is false, the batch is the first dimension of all three.


class _CudnnState(NamedTuple):
    """The sizes of the layers of a call.

    Attributes:
        cells: Layers times directions.
        units: Hidden units of each cell.
        returned: The features that each cell returns: its units, or the units of an LSTM's projection.
    """

    cells: int
    units: int
    returned: int


def _read_state(call: OpCall) -> _CudnnState:
    """Return the sizes that the shapes of the states tell: a projection changes the hidden state alone."""
    returned, cells = call.inputs[1][-1], call.inputs[1][1 if _is_batch_first(call) else 0]
    units = call.inputs[2][-1] if call.attribute("num_proj") else returned
    return _CudnnState(int(cells), int(units), int(returned))


@register_op_costs("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
def cudnn_rnn(call: OpCall) -> Cost:
    """All layers and directions in one operator, each with two biases for each gate, as cuDNN has them."""
    kind = call.attribute("rnn_mode")
    gates, state = recurrent.GATES[kind], _read_state(call)
    units = state.cells * state.units
    return recurrent.layers(
        kind,
        positions=_count_cudnn_positions(call),
        matrix_elements=_count_cudnn_matrix_elements(call, state, gates),
        bias_elements=2 * gates * units,
        units=units,
    )


def _count_cudnn_matrix_elements(call: OpCall, state: _CudnnState, gates: int) -> int:
    """Return the elements of the matrices of all layers and directions, with projections.

    Each gate has a matrix for the input of the cell and a matrix for the output of the cell in the step before. The
    first layer reads the input of the call, any other layer the outputs of both directions of the layer below.
    """
    directions = 2 if call.attribute("direction") == "bidirectional" else 1
    layers = state.cells // directions
    features, mode = int(call.inputs[0][-1]), call.attribute("input_mode")
    # The first layer then adds its input as it is, without a matrix.
    skips_input = mode == "skip_input" or (mode == "auto_select" and features == state.units)
    first = 0 if skips_input else features
    features_read = [first] + [state.returned * directions] * (layers - 1)
    of_gates = directions * sum(gates * state.units * (features + state.returned) for features in features_read)
    of_projections = state.cells * state.units * state.returned if call.attribute("num_proj") else 0
    return of_gates + of_projections


def _count_cudnn_positions(call: OpCall) -> int:
    """Return the steps of all sequences together.

    In version 3 with known lengths, only the steps up to the length of each sequence count; otherwise padding counts
    like data.
    """
    first, second, _ = call.inputs[0]
    lengths = None if call.attribute("time_major") is None else call.value(4)
    steps = second if _is_batch_first(call) else first
    return int(first * second) if lengths is None else int(np.clip(lengths, 0, steps).sum())


def _is_batch_first(call: OpCall) -> bool:
    return call.attribute("time_major") is False


@register_op_costs("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3")
def cudnn_rnn_gradient(call: OpCall) -> Cost:
    """Twice the forward pass: once for the gradients of the inputs, once for the weights."""
    return cudnn_rnn(call).times(2)


# One layer of an LSTM, its four gates in one matrix -------------------------------------------------------------------


@register_op_costs("BlockLSTM", "BlockLSTMV2")
def block_lstm(call: OpCall) -> Cost:
    """All steps of one layer.

    Inputs: 0 the longest length, a number; 1 the input ``(steps, batch, features)``; 2 and 3 the states; 4 the weights
    ``(features + units, 4 * units)``. The steps up to the longest length are computed, if that is known.
    """
    (steps, samples, _), weights = call.inputs[1], call.inputs[4]
    longest = call.value(0)
    computed_steps = steps if longest is None else min(max(int(longest), 0), steps)
    return _count_lstm(call, computed_steps * samples, weights)


@register_op_costs("BlockLSTMGrad", "BlockLSTMGradV2")
def block_lstm_gradient(call: OpCall) -> Cost:
    """Twice the forward pass: once for the gradients of the inputs, once for the weights."""
    return block_lstm(call).times(2)


@register_op_cost("LSTMBlockCell")
def lstm_block_cell(call: OpCall) -> Cost:
    """One step of one layer.

    Inputs: 0 the input ``(batch, features)``; 1 and 2 the states; 3 the weights ``(features + units, 4 * units)``.
    """
    return _count_lstm(call, Shape(call.inputs[0][:-1]).numel, call.inputs[3])


@register_op_cost("LSTMBlockCellGrad")
def lstm_block_cell_gradient(call: OpCall) -> Cost:
    """The gradients of the gates and of the cell state, without peepholes; their products are operators of their own.

    Inputs as of `lstm_block_cell`; the gradient of the new cell state comes in beside the gradient of the output.
    """
    if call.attribute("use_peephole"):
        raise UnknownCostError
    return recurrent.lstm_cell_gradient(call.inputs[1].numel, bias_elements=0, cell_gradient=True)


def _count_lstm(call: OpCall, positions: int, weights: Shape) -> Cost:
    """Return the cost of an LSTM at so many positions (steps times samples); weights as in `block_lstm`.

    With a positive ``cell_clip`` the state of each cell is clamped.
    """
    units = weights[1] // 4
    cost = recurrent.lstm_with_joined_product(
        positions,
        matrix_elements=weights.numel,
        units=units,
        peepholes=bool(call.attribute("use_peephole")),
        forget_bias=bool(call.attribute("forget_bias")),
    )
    is_clipped = (call.attribute("cell_clip") or 0) > 0
    return cost.plus(activation.clamp(positions * units if is_clipped else 0))


# One step of a GRU ----------------------------------------------------------------------------------------------------


@register_op_cost("GRUBlockCell")
def gru_block_cell(call: OpCall) -> Cost:
    """One step of one layer, which multiplies input and state by one matrix.

    Inputs: 0 the input ``(batch, features)``; 1 the state ``(batch, units)``; 2 the weights of two gates
    ``(features + units, 2 * units)``; 3 the weights of the third ``(features + units, units)``; 4 and 5 their biases.

    For each of three gates `recurrent.layers` adds two products, of the input and of the state. Here both are one
    product, and each gate adds its bias instead: as many additions, so the biases add none. The new state is
    ``u * h + (1 - u) * c``, in the form that layers have.
    """
    batch, units = call.inputs[1]
    return recurrent.layers("gru", batch, _count_gru_matrix_elements(call), bias_elements=0, units=units)


@register_op_cost("GRUBlockCellGrad")
def gru_block_cell_gradient(call: OpCall) -> Cost:
    """The gradients of the gates, the input and the state; the gradients by weights are operators of their own."""
    batch, units = call.inputs[1]
    elements = _count_gru_matrix_elements(call)
    return recurrent.layers_gradient("gru", batch, elements, bias_elements=0, units=units, by_weights=False)


def _count_gru_matrix_elements(call: OpCall) -> int:
    return int(call.inputs[2].numel + call.inputs[3].numel)


register_free("CudnnRNNParamsSize", "CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2")
register_free("CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2")
