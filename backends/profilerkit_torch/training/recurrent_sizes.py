"""One direction of a recurrent layer in a training step: its sizes, the memory of its backward pass, and its price.

The formulas give the work. The CPU kernel determines the memory (``aten/src/ATen/native/RNN.cpp``). A tensor with all
time steps is called a sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from profilerkit.costs import Cost, recurrent

__all__ = ["Direction", "count_most_elements", "count_states", "price_gradients"]

#: How many sequences of hidden units the steps keep beside their outputs. A GRU: its gates, the part of the new gate
#: that was multiplied by the reset gate, the new gate, and its difference to the state. An LSTM: its gates, its cells
#: and their tanh.
_KEPT_SEQUENCES = {"rnn_tanh": 0, "rnn_relu": 0, "gru": 6, "lstm": 6}


class Direction(NamedTuple):
    """The sizes of a call of one direction of a recurrent layer."""

    kind: str  #: as in `recurrent.GATES`
    has_biases: bool  #: whether it has biases beside its matrices
    shape: torch.Size  #: of its input: steps, samples, features
    out: int  #: the numbers in a step's output for each sample: as many as units, or the projection's size
    units: int  #: the hidden units

    @property
    def positions(self) -> int:
        """Steps times samples."""
        return self.shape[0] * self.shape[1]

    @property
    def gates(self) -> int:
        """The elements of the gates of all steps."""
        return self.positions * self.units * recurrent.GATES[self.kind]

    @property
    def for_backward(self) -> int:
        """The elements that are kept for the backward pass: the outputs of all steps, and the values before them."""
        sequences = _KEPT_SEQUENCES[self.kind] + (self.out != self.units)  # the input of a projection is kept too
        return self.positions * (self.units * sequences + self.out)


def count_states(kind: str) -> int:
    """Return how many states a cell of a kind hands on from step to step."""
    return 2 if kind == "lstm" else 1


def count_most_elements(sizes: Direction, results: Sequence[int]) -> int:
    """Return the most elements alive in the backward pass, beside the inputs and without the output's gradient.

    There are four moments: the first step back, when all kept tensors are still alive; the second step, whose gradients
    of the weights are added to the first step's in new tensors; when the gradients of the gates of all steps are joined
    in one tensor; and when the gradients by the input and its matrix are made of the joined tensor.
    """
    steps, output = sizes.shape[0], sizes.positions * sizes.out
    by_hidden = sum(results[1 + count_states(sizes.kind) :][1::2])
    first_step = sizes.for_backward + by_hidden
    second_step = sizes.for_backward * (steps - 1) // steps + by_hidden * (3 if steps > 1 else 1)
    joined = 2 * sizes.gates + by_hidden - output
    last = sizes.gates + sum(results) - output
    return max(max(first_step, second_step) + output // steps, joined, last)


def price_gradients(sizes: Direction, inputs: Sequence[torch.Tensor], needs: Sequence[bool]) -> Cost:
    """Return the cost of the gradients that are needed.

    Args:
        sizes: The sizes of the direction.
        inputs: Its input, its first states, and its weights: the matrices of the input and of the state come first.
        needs: Whether the gradient by each of them is needed.
    """
    first = 1 + count_states(sizes.kind)
    weights = list(zip(inputs[first:], needs[first:], strict=True))
    matrices = [(weight.numel(), is_needed) for weight, is_needed in weights if weight.dim() == 2]
    unwanted = sizes.positions * sum(elements for elements, is_needed in matrices if not is_needed)
    (of_input, _), (of_state, _), *_ = matrices
    if not needs[0]:
        unwanted += sizes.positions * of_input
    if not needs[1]:  # the last step back makes no gradient by the state before it
        unwanted += sizes.shape[1] * of_state
    return recurrent.layers_gradient(
        sizes.kind,
        sizes.positions,
        sum(elements for elements, _ in matrices),
        sum(weight.numel() for weight, is_needed in weights if weight.dim() == 1 and is_needed),
        sizes.units,
        unwanted_macs=unwanted,
    )
