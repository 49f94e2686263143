"""Recurrent layers of LiteRT, whose inputs have their meaning by their position.

The positions are those of LiteRT's kernels (``lstm_shared.h``, ``basic_rnn.cc``, ``bidirectional_sequence_*.cc``).
"""

from __future__ import annotations

from ai_edge_litert.schema_py_generated import ActivationFunctionType, LSTMKernelType

from profilerkit.backend_kit.operator_calls import UnknownCostError
from profilerkit.costs import Cost, elementwise, recurrent

from .registry import OPERATORS, LiteRTCall

#: Of an RNN: the weights of the input and of the state, and the bias; a state follows.
_RNN_INPUT, _RNN_STATE, _RNN_BIAS = 1, 2, 3
#: How far behind the first direction of an RNN the second is, and where a further input and its weights are.
_RNN_DIRECTION = 4
_RNN_FURTHER = range(9, 12)

#: Of an LSTM: the weights of the input and of the state, of four gates each; the first gate's may be left out.
_LSTM_MATRICES = range(1, 9)
_LSTM_FORGET_GATE = 2
_LSTM_PEEPHOLES = range(9, 12)
_LSTM_BIASES = range(12, 16)
_LSTM_PROJECTION, _LSTM_PROJECTION_BIAS = 16, 17
_LSTM_NORMALIZATION = range(20, 24)
#: How far behind the first direction of an LSTM the second is, and where a further input and its weights are.
_LSTM_DIRECTION = 17
_LSTM_FURTHER = range(39, 48)

_RNN_KINDS = {ActivationFunctionType.RELU: "rnn_relu", ActivationFunctionType.TANH: "rnn_tanh"}


@OPERATORS.register_all("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(call: LiteRTCall) -> Cost:
    """Weights of the input and of the state, and a bias."""
    return _rnn(call, 0)


@OPERATORS.register("BIDIRECTIONAL_SEQUENCE_RNN")
def rnn_both_ways(call: LiteRTCall) -> Cost:
    """Weights, a bias and a state of each direction; a further input is not counted."""
    if any(map(call.has_input, _RNN_FURTHER)):
        raise UnknownCostError
    return _rnn(call, 0).plus(_rnn(call, _RNN_DIRECTION))


def _rnn(call: LiteRTCall, first: int) -> Cost:
    """Return the cost of one direction, whose inputs stand ``first`` positions behind those of the first one."""
    kind = _RNN_KINDS.get(call.option("fusedActivationFunction", ActivationFunctionType.NONE))
    if kind is None:
        raise UnknownCostError
    matrices = call.count_elements([first + _RNN_INPUT, first + _RNN_STATE])
    biases, units = call.count_elements([first + _RNN_BIAS]), call.inputs[first + _RNN_INPUT][0]
    return recurrent.layers(kind, _count_positions(call), matrices, biases, units)


@OPERATORS.register_all("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(call: LiteRTCall) -> Cost:
    """Weights of the input, of the state, peepholes, biases of four gates, and a projection.

    The basic kernel of ``LSTM`` has one product of input and state together.
    """
    if call.type == "LSTM" and call.option("kernelType", LSTMKernelType.FULL) == LSTMKernelType.BASIC:
        rows, columns = call.inputs[2]
        return recurrent.lstm_with_joined_product(call.inputs[0][0], rows * columns, rows // 4, False, False)
    if any(map(call.has_input, _LSTM_NORMALIZATION)):
        raise UnknownCostError
    return _lstm(call, 0)


@OPERATORS.register("BIDIRECTIONAL_SEQUENCE_LSTM")
def lstm_both_ways(call: LiteRTCall) -> Cost:
    """The weights of either direction; a further input is not counted."""
    if any(map(call.has_input, _LSTM_FURTHER)):
        raise UnknownCostError
    return _lstm(call, 0).plus(_lstm(call, _LSTM_DIRECTION))


def _lstm(call: LiteRTCall, first: int) -> Cost:
    """Return the cost of one direction, whose inputs stand ``first`` positions behind those of the first one.

    Gates that are coupled, which have no input gate, are another layer: `UnknownCostError`.
    """

    def count(positions: range | tuple[int, ...]) -> int:
        return call.count_elements([first + position for position in positions])

    if not call.has_input(first + _LSTM_MATRICES.start):
        raise UnknownCostError
    steps, units = _count_positions(call), call.inputs[first + _LSTM_FORGET_GATE][0]
    matrices = count(_LSTM_MATRICES) + count((_LSTM_PROJECTION,))
    biases = count(_LSTM_BIASES) + count((_LSTM_PROJECTION_BIAS,))
    peepholes = elementwise.scale_and_shift(steps * count(_LSTM_PEEPHOLES))
    return recurrent.layers("lstm", steps, matrices, biases, units).plus(peepholes)


def _count_positions(call: LiteRTCall) -> int:
    """Return how many vectors the input has: the steps of all sequences."""
    x = call.inputs[0]
    return int(x.numel // max(x[-1], 1))
