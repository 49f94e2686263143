"""Recurrent layers of LiteRT, whose inputs have their meaning by their position.

The positions come from LiteRT's kernels (``lstm_shared.h``, ``basic_rnn.cc``). The first input is the sequence, of one
sample or of several. Layers of two directions in one operator, which only old converters write, are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ai_edge_litert.schema_py_generated import ActivationFunctionType, LSTMKernelType

from profilerkit.backend_kit.operator_calls import UnknownCostError
from profilerkit.costs import Cost, activation, elementwise, recurrent

from .registry import OPERATORS, LiteRTCall


class _Layer(NamedTuple):
    """The positions of the weights of a layer.

    Attributes:
        matrices: Its matrices, of the input, of the state and of a projection.
        biases: Its biases.
        peepholes: Vectors that the cell's state is multiplied with.
        units: A matrix that has a row for each of its units.
        normalization: Factors with which its gates are normalized.
    """

    matrices: Sequence[int]
    biases: Sequence[int]
    peepholes: Sequence[int]
    units: int
    normalization: Sequence[int] = ()


_RNN = _Layer(matrices=(1, 2), biases=(3,), peepholes=(), units=1)
#: Four matrices of the input (the input gate first), four of the state, and one of the projection.
_LSTM = _Layer(
    matrices=(*range(1, 9), 16),
    biases=(*range(12, 16), 17),
    peepholes=range(9, 12),
    units=2,
    normalization=range(20, 24),
)

_RNN_KINDS = {ActivationFunctionType.RELU: "rnn_relu", ActivationFunctionType.TANH: "rnn_tanh"}


@OPERATORS.register_all("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(call: LiteRTCall) -> Cost:
    """Weights of the input and of the state, and a bias."""
    kind = _RNN_KINDS.get(call.option("fusedActivationFunction", ActivationFunctionType.NONE))
    if kind is None:
        raise UnknownCostError
    return _count_layer(call, kind, _RNN)


@OPERATORS.register_all("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(call: LiteRTCall) -> Cost:
    """Weights of the input, of the state, peepholes, biases of four gates, and a projection.

    The basic kernel of ``LSTM`` has one product of input and state together, and always a tanh. Other layers are a
    layer without an input gate, whose gates are coupled, one that normalizes its gates, and one with another function
    than tanh. With ``cellClip`` the states of the cells are clamped, with ``projClip`` the results of the projection.
    """
    if call.type == "LSTM" and call.option("kernelType", LSTMKernelType.FULL) == LSTMKernelType.BASIC:
        rows, columns = call.inputs[2]
        return recurrent.lstm_with_joined_product(
            call.inputs[0][0], rows * columns, rows // 4, peepholes=False, forget_bias=False
        )
    input_gate, *_, projection = _LSTM.matrices
    is_tanh = call.option("fusedActivationFunction", ActivationFunctionType.TANH) == ActivationFunctionType.TANH
    if not is_tanh or not call.has_input(input_gate) or any(map(call.has_input, _LSTM.normalization)):
        raise UnknownCostError
    clamped = 0
    if call.option("cellClip", 0.0) > 0:
        clamped += call.inputs[_LSTM.units][0]
    if call.option("projClip", 0.0) > 0 and call.has_input(projection):
        clamped += call.inputs[projection][0]
    return _count_layer(call, "lstm", _LSTM).plus(activation.clamp(_count_steps(call) * clamped))


def _count_layer(call: LiteRTCall, kind: str, layer: _Layer) -> Cost:
    """Return the cost of a layer, of a kind as `recurrent.layers` has them."""
    steps = _count_steps(call)
    matrices, biases = call.count_elements(layer.matrices), call.count_elements(layer.biases)
    cost = recurrent.layers(kind, steps, matrices, biases, units=call.inputs[layer.units][0])
    return cost.plus(elementwise.scale_and_shift(steps * call.count_elements(layer.peepholes)))


def _count_steps(call: LiteRTCall) -> int:
    """Return the steps of all samples."""
    x = call.inputs[0]
    return int(x.numel // max(x[-1], 1))
