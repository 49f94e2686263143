"""Which input of OpenVINO's recurrent operators is which; the first is the sequence, or one step of it for a cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["RECURRENT", "RecurrentInputs"]


class RecurrentInputs(NamedTuple):
    """The positions of the inputs of an operator.

    Attributes:
        states: The states that it begins with.
        lengths: How long each sequence is; None for a cell, which takes one step.
        weights: The matrices of the input, of all directions and gates.
        recurrent_weights: The matrices of the state.
        biases: The biases, which are always there: zeros for a layer without biases.
        peepholes: The factors of an LSTM's cell state, which may be left out.
    """

    states: tuple[int, ...]
    lengths: int | None
    weights: int
    recurrent_weights: int
    biases: int
    peepholes: int


RECURRENT: Mapping[str, RecurrentInputs] = {
    "LSTMSequence": RecurrentInputs((1, 2), 3, 4, 5, 6, 7),
    "GRUSequence": RecurrentInputs((1,), 2, 3, 4, 5, 6),
    "RNNSequence": RecurrentInputs((1,), 2, 3, 4, 5, 6),
    "LSTMCell": RecurrentInputs((1, 2), None, 3, 4, 5, 6),
    "GRUCell": RecurrentInputs((1,), None, 2, 3, 4, 5),
    "RNNCell": RecurrentInputs((1,), None, 2, 3, 4, 5),
}
