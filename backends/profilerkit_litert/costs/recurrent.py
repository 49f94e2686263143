"""Recurrent layers of LiteRT, whose inputs have their meaning by their position.

The positions come from LiteRT's kernels (``lstm_shared.h``, ``basic_rnn.cc``, ``bidirectional_sequence_*.cc``). The
first input is the sequence, of one sample or of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ai_edge_litert.schema_py_generated import ActivationFunctionType, LSTMKernelType

from profilerkit.backend_kit.operator_calls import UnknownCostError
from profilerkit.costs import Cost, activation, elementwise, recurrent

from .registry import OPERATORS, LiteRTCall


class _Direction(NamedTuple):
    """The positions of the weights of one direction of a layer.

    Attributes:
        matrices: Its matrices, of the input, of the state and of a projection.
        biases: Its biases.
        peepholes: Vectors that the cell's state is multiplied with.
        units: A matrix that has a row for each of its units.
    """

    matrices: Sequence[int]
    biases: Sequence[int]
    peepholes: Sequence[int]
    units: int

    def move(self, by: int) -> _Direction:
        """Return the positions of a direction whose inputs are the same, so many positions behind."""

        def shift(positions: Sequence[int]) -> list[int]:
            return [position + by for position in positions]

        return _Direction(shift(self.matrices), shift(self.biases), shift(self.peepholes), self.units + by)


_RNN = _Direction(matrices=(1, 2), biases=(3,), peepholes=(), units=1)
_RNN_BACKWARD = _RNN.move(4)
#: A further input of an RNN of two directions, and its weights.
_RNN_FURTHER = range(9, 12)

#: Four matrices of the input (the input gate first), four of the state, and one of the projection.
_LSTM = _Direction(matrices=(*range(1, 9), 16), biases=(*range(12, 16), 17), peepholes=range(9, 12), units=2)
_LSTM_BACKWARD = _LSTM.move(17)
_LSTM_NORMALIZATION = range(20, 24)
#: A further input of an LSTM of two directions, and its weights.
_LSTM_FURTHER = range(39, 48)

_RNN_KINDS = {ActivationFunctionType.RELU: "rnn_relu", ActivationFunctionType.TANH: "rnn_tanh"}


@OPERATORS.register_all("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(call: LiteRTCall) -> Cost:
    """Weights of the input and of the state, and a bias."""
    return _count_direction(call, _read_rnn_kind(call), _RNN)


@OPERATORS.register("BIDIRECTIONAL_SEQUENCE_RNN")
def rnn_both_ways(call: LiteRTCall) -> Cost:
    """Weights and a bias of each direction; a further input is not counted."""
    _require_none(call, _RNN_FURTHER)
    kind = _read_rnn_kind(call)
    return _count_direction(call, kind, _RNN).plus(_count_direction(call, kind, _RNN_BACKWARD))


def _read_rnn_kind(call: LiteRTCall) -> str:
    kind = _RNN_KINDS.get(call.option("fusedActivationFunction", ActivationFunctionType.NONE))
    if kind is None:
        raise UnknownCostError
    return kind


@OPERATORS.register_all("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(call: LiteRTCall) -> Cost:
    """Weights of the input, of the state, peepholes, biases of four gates, and a projection.

    The basic kernel of ``LSTM`` has one product of input and state together.
    """
    if call.type == "LSTM" and call.option("kernelType", LSTMKernelType.FULL) == LSTMKernelType.BASIC:
        rows, columns = call.inputs[2]
        return recurrent.lstm_with_joined_product(call.inputs[0][0], rows * columns, rows // 4, False, False)
    _require_none(call, _LSTM_NORMALIZATION)
    return _count_lstm_direction(call, _LSTM)


@OPERATORS.register("BIDIRECTIONAL_SEQUENCE_LSTM")
def lstm_both_ways(call: LiteRTCall) -> Cost:
    """The weights of both directions; a call with a further input is not counted."""
    _require_none(call, _LSTM_FURTHER)
    return _count_lstm_direction(call, _LSTM).plus(_count_lstm_direction(call, _LSTM_BACKWARD))


def _count_lstm_direction(call: LiteRTCall, direction: _Direction) -> Cost:
    """Return the cost of one direction; one without an input gate, whose gates are coupled, is another layer.

    With ``cellClip`` the states of the cells are clamped, with ``projClip`` the results of the projection.
    """
    projection = direction.matrices[-1]
    if not call.has_input(direction.matrices[0]):
        raise UnknownCostError
    clamped = 0
    if call.option("cellClip", 0.0) > 0:
        clamped += call.inputs[direction.units][0]
    if call.option("projClip", 0.0) > 0 and call.has_input(projection):
        clamped += call.inputs[projection][0]
    return _count_direction(call, "lstm", direction).plus(activation.clamp(_count_steps(call) * clamped))


def _count_direction(call: LiteRTCall, kind: str, direction: _Direction) -> Cost:
    """Return the cost of one direction, of a kind as `recurrent.layers` has them."""
    steps = _count_steps(call)
    matrices, biases = call.count_elements(direction.matrices), call.count_elements(direction.biases)
    layer = recurrent.layers(kind, steps, matrices, biases, units=call.inputs[direction.units][0])
    return layer.plus(elementwise.scale_and_shift(steps * call.count_elements(direction.peepholes)))


def _count_steps(call: LiteRTCall) -> int:
    """Return the steps of all samples."""
    x = call.inputs[0]
    return int(x.numel // max(x[-1], 1))


def _require_none(call: LiteRTCall, positions: Sequence[int]) -> None:
    """Raise `UnknownCostError` if one of these inputs is there."""
    if any(map(call.has_input, positions)):
        raise UnknownCostError
