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
    """

    states: tuple[int, ...]
    lengths: int | None
    weights: int

    @property
    def recurrent_weights(self) -> int:
        """The matrices of the state."""
        return self.weights + 1

    @property
    def biases(self) -> int:
        """The biases, which are always there; of a layer without any they are zeros."""
        return self.weights + 2

    @property
    def peepholes(self) -> int:
        """What an LSTM multiplies its cell's state with, which may be left out."""
        return self.weights + 3


RECURRENT: Mapping[str, RecurrentInputs] = {
    "LSTMSequence": RecurrentInputs(states=(1, 2), lengths=3, weights=4),
    "GRUSequence": RecurrentInputs(states=(1,), lengths=2, weights=3),
    "RNNSequence": RecurrentInputs(states=(1,), lengths=2, weights=3),
    "LSTMCell": RecurrentInputs(states=(1, 2), lengths=None, weights=3),
    "GRUCell": RecurrentInputs(states=(1,), lengths=None, weights=2),
    "RNNCell": RecurrentInputs(states=(1,), lengths=None, weights=2),
}
