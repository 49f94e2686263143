"""Recurrent layers that are one operator, by cuDNN; in loops over steps, the operators of the body count.

The inputs of the operators::

    0 input: (steps, batch, features)
    1 hidden state: (cells, batch, returned)
    2 cell state of an LSTM: (cells, batch, units)
    3 parameters of all layers, one after the other
    4 lengths of the sequences: (batch,), of version 3 alone

Version 3 alone has ``time_major``; where it is false, the batch is the first dimension of all three.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from profilerkit.costs import recurrent

from .registry import Cost, OpCall, register_free, register_op_costs


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


register_free("CudnnRNNParamsSize", "CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2")
register_free("CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2")
