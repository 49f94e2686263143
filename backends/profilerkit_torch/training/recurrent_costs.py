"""The memory and the work of one direction of a recurrent layer in a training step, by its sizes.

The CPU kernel determines the memory (``aten/src/ATen/native/RNN.cpp``). A tensor with all time steps is called a
sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from profilerkit.costs import Cost, recurrent

__all__ = ["DirectionSizes", "Parts"]

#: How many sequences of hidden units the steps keep beside their outputs. A GRU: its gates, the part of the new gate
#: that was multiplied by the reset gate, the new gate, and its difference to the state. An LSTM: its gates, its cells
#: and their tanh.
_KEPT_SEQUENCES = {"rnn_tanh": 0, "rnn_relu": 0, "gru": 6, "lstm": 6}


def _count_states(kind: str) -> int:
    """Return how many states a cell of a kind hands on from step to step."""
    return 2 if kind == "lstm" else 1


class Parts(NamedTuple):
    """What is known of each tensor that a direction takes."""

    x: Any  #: of its input
    states: Sequence[Any]  #: of its first states, the output before the first step first
    weights: Sequence[Any]  #: of its matrices for the input and for the state, its biases for both, and its projection

    @classmethod
    def split(cls, kind: str, parts: Sequence[Any]) -> Parts:
        """Return the parts of a direction of a layer of this kind from a sequence of them, in the same order."""
        x, *others = parts
        states = _count_states(kind)
        return cls(x, others[:states], others[states:])


class DirectionSizes(NamedTuple):
    """The sizes of a call of one direction of a recurrent layer."""

    kind: str  #: as in `recurrent.GATES`
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
    def step_memory(self) -> int:
        """The elements that a step keeps for the backward pass: its output, and the values before it."""
        sequences = _KEPT_SEQUENCES[self.kind] + (self.out != self.units)  # the input of a projection is kept too
        return self.shape[1] * (self.units * sequences + self.out)

    @property
    def for_backward(self) -> int:
        """The elements that all steps keep for the backward pass: of a GRU, no step needs the output of the last."""
        return self.shape[0] * self.step_memory - (self.shape[1] * self.out if self.kind == "gru" else 0)

    def count_inside_backward(self, gradients: Parts, freed: int) -> int:
        """Return the most elements alive in the backward pass, beside its inputs and the gradients that it makes.

        ``gradients`` has the elements of each, and ``freed`` those of the output's gradient if the last of the steps
        frees it. There are five moments: the begin, when all kept tensors are still alive; the first step back; the
        second step, whose gradients of the weights are added to the first step's in new tensors; when the gradients of
        the gates of all steps are joined in one tensor; and when the gradients by the input and its matrix are made of
        the joined tensor. The gradient of the last state, an input, is there at the begin alone.
        """
        steps, state, gates = self.shape[0], self.shape[1] * self.out, self.gates // self.shape[0]
        is_gru, has_second = self.kind == "gru", steps > 1
        results: int = gradients.x + sum(gradients.states) + sum(gradients.weights)
        by_hidden: int = sum(gradients.weights[1::2])
        begin = self.for_backward + state * (3 if is_gru and has_second else 1)
        # The gates of a GRU have one gradient for the products of the input, another for those of the state.
        first_step = self.step_memory * (steps - 1) + gates * (2 if is_gru else 1) + by_hidden
        first_step += state if has_second else -freed - state
        second_step = self.step_memory * (steps - 2) + 2 * gates + 2 * by_hidden
        second_step += max(state, by_hidden - (freed if steps <= 3 else 0)) if has_second else -second_step
        joined = 2 * self.gates + by_hidden - freed - state
        last = self.gates + results - freed - state
        return max(0, max(begin, first_step, second_step, joined, last) - results)

    def price_gradients(self, tensors: Parts, needs: Parts) -> Cost:
        """Return the cost of the gradients by the tensors that need one."""
        weights = list(zip(tensors.weights, needs.weights, strict=True))
        matrices = [(weight.numel(), is_needed) for weight, is_needed in weights if weight.dim() == 2]
        unwanted = self.positions * sum(elements for elements, is_needed in matrices if not is_needed)
        of_input, of_state = (weight.numel() for weight in tensors.weights[:2])
        if not needs.x:
            unwanted += self.positions * of_input
        if not needs.states[0]:  # the last step back makes no gradient by the state before it
            unwanted += self.shape[1] * of_state
        return recurrent.layers_gradient(
            self.kind,
            self.positions,
            sum(elements for elements, _ in matrices),
            sum(weight.numel() for weight, is_needed in weights if weight.dim() == 1 and is_needed),
            self.units,
            unwanted_macs=unwanted,
        )
