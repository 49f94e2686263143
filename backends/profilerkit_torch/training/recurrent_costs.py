"""The memory and the work of one direction of a recurrent layer in a training step, by its sizes.

The CPU kernel determines the memory (``aten/src/ATen/native/RNN.cpp``). A tensor with all time steps is called a
sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import torch

from profilerkit.costs import Cost, recurrent

__all__ = ["DirectionSizes", "Parts"]

_Part = TypeVar("_Part")
#: How many sequences of hidden units the steps keep beside their outputs. A GRU: its gates, the part of the new gate
#: that was multiplied by the reset gate, the new gate, and its difference to the state. An LSTM: its gates, its cells
#: and their tanh.
_KEPT_SEQUENCES = {"rnn_tanh": 0, "rnn_relu": 0, "gru": 6, "lstm": 6}


@dataclass(frozen=True)
class Parts(Generic[_Part]):
    """A value for each tensor that a direction takes: the tensor itself, its size, or whether it needs a gradient."""

    x: _Part  #: for its input
    states: Sequence[_Part]  #: for its first states, the output before the first step first
    #: For its matrices for the input and for the state, its biases for both, and its projection.
    weights: Sequence[_Part]

    @classmethod
    def split(cls, kind: str, parts: Sequence[_Part]) -> Parts[_Part]:
        """Return the parts of a direction of a layer of this kind from a sequence of them, in the same order."""
        x, *others = parts
        states = 2 if kind == "lstm" else 1
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
        not_needed = self.shape[1] * self.out if self.kind == "gru" else 0
        return self.shape[0] * self.step_memory - not_needed

    def count_inside_backward(self, gradients: Parts[int], freed: int) -> int:
        """Return the most elements alive in the backward pass, beside its inputs and the gradients that it makes.

        ``gradients`` has the elements of each, and ``freed`` those of the output's gradient if the last of the steps
        frees it. The gradient of the last state, an input too, is freed after the begin.
        """
        steps, state, step_gates = self.shape[0], self.shape[1] * self.out, self.gates // self.shape[0]
        by_state = sum(gradients.weights[1:4:2])  # by the matrix and the bias for the state
        results = gradients.x + sum(gradients.states) + sum(gradients.weights)
        inputs_freed = freed + state
        moments = [
            # At the begin: all kept tensors, and the gradient of the last output.
            self.for_backward + state,
            # After the last step: the gradients of all gates are joined in one tensor.
            2 * self.gates + by_state - inputs_freed,
            # At the end: the gradients by the input and its weights are made of the joined tensor.
            self.gates + results - inputs_freed,
        ]
        if steps > 1:
            first_step = self.step_memory * (steps - 1) + step_gates + by_state + state
            second_step = self.step_memory * (steps - 2) + 2 * step_gates + 2 * by_state
            # The second step's gradients by the weights are added to those of the first in a third tensor each: of up
            # to three steps, the output's gradient has been freed by then.
            third_tensors = by_state - (freed if steps <= 3 else 0)
            moments += [first_step, second_step + state, second_step + third_tensors]
            if self.kind == "gru":
                # Its update gate multiplies the state: there are gradients of both factors at the begin. Its gates have
                # one gradient for the products of the input, another for those of the state.
                moments += [self.for_backward + 3 * state, first_step + step_gates]
        return max(0, max(moments) - results)

    def price_gradients(self, tensors: Parts[torch.Tensor], needs: Parts[bool]) -> Cost:
        """Return the cost of the gradients by the tensors that need one."""
        weights = list(zip(tensors.weights, needs.weights, strict=True))
        matrices = [(weight.numel(), is_needed) for weight, is_needed in weights if weight.dim() == 2]
        unwanted = self.positions * sum(elements for elements, is_needed in matrices if not is_needed)
        input_matrix, state_matrix = tensors.weights[:2]
        if not needs.x:
            unwanted += self.positions * input_matrix.numel()
        if not needs.states[0]:  # the last step back makes no gradient by the state before it
            unwanted += self.shape[1] * state_matrix.numel()
        return recurrent.layers_gradient(
            self.kind,
            self.positions,
            sum(elements for elements, _ in matrices),
            sum(weight.numel() for weight, is_needed in weights if weight.dim() == 1 and is_needed),
            self.units,
            unwanted_macs=unwanted,
        )
