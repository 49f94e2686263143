"""Recurrent layers in a training step: two operators, forward and backward, by layer and direction.

Torch decomposes such a layer into time steps. On meta tensors it also multiplies the input step by step, while its CPU
kernel multiplies all steps at once. Here the formulas give the work, and the CPU kernel determines the memory
(``aten/src/ATen/native/RNN.cpp``). A tensor with all time steps is called a sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from profilerkit.costs import Cost, recurrent
from profilerkit.process.restoring import restored

from ..compat.autograd import is_asked_for
from ..compat.modes import disable_dispatch_modes, is_any_autocast_enabled, unseen_by_functions
from ..compat.recording import find_transform_level
from ..compat.tensors import stands_in
from ..trace.inference_pass import below_autograd
from ..trace.pass_errors import Refusal
from ..trace.recurrent_outputs import RECURRENT
from .training_recorder import TrainingRecorder

__all__ = ["RECURRENT_FUNCTIONS", "run_recurrent", "without_onednn"]

_onednn: Any = torch.backends.mkldnn
#: The kinds of layers by the functions that run them.
RECURRENT_FUNCTIONS: dict[Any, str] = {getattr(torch, kind): kind for kind in recurrent.GATES}
#: How many sequences of hidden units the steps keep beside their outputs. A GRU: its gates, the part of the new gate
#: that was multiplied by the reset gate, the new gate, and its difference to the state. An LSTM: its gates, its cells
#: and their tanh.
_KEPT_SEQUENCES = {"rnn_tanh": 0, "rnn_relu": 0, "gru": 6, "lstm": 6}


def run_recurrent(recorder: TrainingRecorder, kind: str, x: Any, hx: Any, *arguments: Any) -> Any:
    """Return the output and the last states of all layers, like torch's function; None if torch must run itself."""
    if not _has_formula(kind, x, hx, arguments):
        return None
    weights, has_biases, layers, dropout, is_training, is_bidirectional, batch_first = arguments
    sequence = x.transpose(0, 1).contiguous() if batch_first else x
    states = hx if kind == "lstm" else (hx,)
    directions = iter(_divide(states, weights, len(weights) // states[0].shape[0]))
    last_states: list[Sequence[torch.Tensor]] = []
    run: Any = _Direction.apply
    for layer in range(layers):
        if layer and dropout and is_training:
            sequence = F.dropout(sequence, dropout)
        outputs = []
        for tensors in islice(directions, 2 if is_bidirectional else 1):
            output, *last = run(recorder, kind, has_biases, sequence, *tensors)
            outputs.append(output)
            last_states.append(last)
        sequence = torch.cat(outputs, -1) if is_bidirectional else outputs[0]
    finals = map(torch.cat, zip(*last_states, strict=True))
    return (sequence.transpose(0, 1) if batch_first else sequence, *finals)


def _divide(states: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], size: int) -> Iterator[list[torch.Tensor]]:
    """Yield the first states and the weights of each direction of each layer, which has so many weights."""
    for index in range(len(weights) // size):
        first_states = [state[index : index + 1] for state in states]
        yield [*first_states, *weights[index * size : (index + 1) * size]]


def _has_formula(kind: str, x: Any, hx: Any, arguments: Any) -> bool:
    """Return whether the work and memory of a call are known: not of packed sequences, transforms or autocast."""
    is_tensor = isinstance(hx, torch.Tensor)
    has_states = not is_tensor if kind == "lstm" else is_tensor  # of a packed sequence the sizes are in their place
    if not has_states or find_transform_level() is not None or is_any_autocast_enabled():
        return False
    with disable_dispatch_modes():
        return x.device.type in ("meta", "cpu") and RECURRENT[f"aten::{kind}.input"](x, hx, *arguments) is not None


class _Direction(torch.autograd.Function):
    """One direction of one layer over (steps, samples, features); its first states come first in ``tensors``."""

    @staticmethod
    def forward(ctx: Any, recorder: TrainingRecorder, kind: str, has_biases: bool, x: Any, *tensors: Any) -> Any:
        states = tensors[: _count_states(kind)]
        sizes = ctx.sizes = _Sizes(kind, has_biases, x.shape, states[0].shape[-1], states[-1].shape[-1])
        ctx.recorder = recorder
        ctx.memory = recorder.hold(x, sizes.for_backward)
        products = recorder.hold(x, sizes.gates)  # of the input; alive until the last step
        with below_autograd():
            outputs = _run(sizes, x, *tensors)
        del products
        ctx.save_for_backward(x, *tensors)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs, recorder, sizes = ctx.saved_tensors, ctx.recorder, ctx.sizes
        if torch.is_grad_enabled():
            recorder.refuse(Refusal.SECOND_GRADIENTS)
        needs = [is_asked_for(node) for node, _ in ctx.next_functions[-len(inputs) :]]
        with disable_dispatch_modes():
            results = _differentiate(sizes, inputs, needs, gradients)
        elements = [0 if result is None else result.numel() for result in results]
        inside = max(0, _count_most_elements(sizes, elements) - sum(elements))
        ctx.memory = None
        recorder.record_gradients(
            f"{sizes.kind}_backward",
            _price_gradients(sizes, inputs, needs),
            (*inputs, *gradients),
            results,
            inside * inputs[0].element_size(),
        )
        return None, None, None, *results


def _run(sizes: _Sizes, x: torch.Tensor, *tensors: torch.Tensor) -> Any:
    """Return the output and the last states of a direction of a layer, as torch computes them."""
    count = _count_states(sizes.kind)
    hx = tensors[:count] if sizes.kind == "lstm" else tensors[0]
    return getattr(torch, sizes.kind)(x, hx, tensors[count:], sizes.has_biases, 1, 0.0, True, False, False)


def _differentiate(
    sizes: _Sizes, inputs: Sequence[torch.Tensor], needs: Sequence[bool], gradients: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """Return the gradient by each input, None if it is not needed; on real tensors the layer runs once more."""
    if stands_in(inputs[0]):
        return [torch.empty_like(x) if is_needed else None for x, is_needed in zip(inputs, needs, strict=True)]
    leaves = [x.detach().requires_grad_(is_needed) for x, is_needed in zip(inputs, needs, strict=True)]
    with unseen_by_functions(), torch.enable_grad(), without_onednn():
        torch.autograd.backward(_run(sizes, *leaves), gradients)
    return [leaf.grad for leaf in leaves]


# Sizes, memory and price ----------------------------------------------------------------------------------------------


class _Sizes(NamedTuple):
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


def _count_states(kind: str) -> int:
    """Return how many states a cell of a kind hands on from step to step."""
    return 2 if kind == "lstm" else 1


def _count_most_elements(sizes: _Sizes, results: Sequence[int]) -> int:
    """Return the most elements alive in the backward pass, beside the inputs and without the output's gradient.

    There are four moments: the first step back, when all kept tensors are still alive; the second step, whose gradients
    of the weights are added to the first step's in new tensors; when the gradients of the gates of all steps are joined
    in one tensor; and when the gradients by the input and its matrix are made of the joined tensor.
    """
    steps, output = sizes.shape[0], sizes.positions * sizes.out
    by_hidden = sum(results[1 + _count_states(sizes.kind) :][1::2])
    first_step = sizes.for_backward + by_hidden
    second_step = sizes.for_backward * (steps - 1) // steps + by_hidden * (3 if steps > 1 else 1)
    joined = 2 * sizes.gates + by_hidden - output
    last = sizes.gates + sum(results) - output
    return max(max(first_step, second_step) + output // steps, joined, last)


def _price_gradients(sizes: _Sizes, inputs: Sequence[torch.Tensor], needs: Sequence[bool]) -> Cost:
    """Return the cost of the gradients that are needed.

    Args:
        sizes: The sizes of the direction.
        inputs: Its input, its first states, and its weights: the matrices of the input and of the state come first.
        needs: Whether the gradient by each of them is needed.
    """
    first = 1 + _count_states(sizes.kind)
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


@contextmanager
def without_onednn() -> Iterator[None]:
    """Run without oneDNN's kernels."""
    with restored(partial(_onednn.set_flags, _onednn.enabled)):
        _onednn.set_flags(False)
        yield
