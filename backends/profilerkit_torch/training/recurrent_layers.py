"""Recurrent layers in a training step: two operators, forward and backward, by layer and direction.

Torch decomposes such a layer into time steps. On meta tensors it also multiplies the input step by step, while its CPU
kernel multiplies all steps at once: here the sizes give memory and work. A tensor with all time steps is called a
sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.nn import functional as F

from profilerkit.costs import recurrent
from profilerkit.process.restoring import restored

from ..compat.autograd import is_asked_for
from ..compat.modes import disable_dispatch_modes, is_any_autocast_enabled, unseen_by_functions
from ..compat.recording import find_transform_level
from ..compat.tensors import stands_in
from ..trace.inference_pass import below_autograd
from ..trace.pass_errors import Refusal
from ..trace.recurrent_outputs import RECURRENT
from .recurrent_costs import DirectionSizes, Parts
from .training_recorder import TrainingRecorder

__all__ = ["RECURRENT_FUNCTIONS", "run_recurrent", "without_onednn"]

_onednn: Any = torch.backends.mkldnn
#: The kinds of layers by the functions that run them; an exported program calls the operators.
RECURRENT_FUNCTIONS: dict[Any, str] = {
    function: kind
    for kind in recurrent.GATES
    for operator in [getattr(torch.ops.aten, kind)]
    for function in (getattr(torch, kind), operator, operator.input, operator.data)
}


def run_recurrent(recorder: TrainingRecorder, kind: str, x: Any, hx: Any, *arguments: Any) -> Any:
    """Return the output and the last states of all layers, like torch's function; None if torch must run itself."""
    if not _has_formula(kind, x, hx, arguments):
        return None
    weights, has_biases, layers, dropout, is_training, is_bidirectional, batch_first = arguments
    sequence = x.transpose(0, 1).contiguous() if batch_first else x
    states = hx if kind == "lstm" else (hx,)
    directions = iter(_divide(states, weights, len(weights) // states[0].shape[0]))
    last_states: list[Sequence[torch.Tensor]] = []
    run = partial(_run_layer, recorder, kind, has_biases)
    for layer in range(layers):
        if layer and dropout and is_training:
            sequence = F.dropout(sequence, dropout)
        sequence, states = run(sequence, islice(directions, 2 if is_bidirectional else 1))
        last_states += states
    finals = map(torch.cat, zip(*last_states, strict=True))
    return (sequence.transpose(0, 1) if batch_first else sequence, *finals)


def _run_layer(
    recorder: TrainingRecorder, kind: str, has_biases: bool, x: torch.Tensor, directions: Iterable[list[torch.Tensor]]
) -> tuple[torch.Tensor, list[Sequence[torch.Tensor]]]:
    """Return the output of a layer, and the last states of each direction; the tensors of each are given."""
    outputs, last_states = [], []
    run: Any = _Direction.apply
    for tensors in directions:
        matrix = Parts.split(kind, (x, *tensors)).weights[0]
        products = recorder.hold(x, x.shape[:-1].numel() * matrix.shape[0])  # of the input; alive until all are joined
        output, *states = run(recorder, kind, has_biases, x, *tensors)
        outputs.append(output)
        last_states.append(states)
    joined = torch.cat(outputs, -1) if len(outputs) > 1 else outputs[0]
    del products
    return joined, last_states


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
        states = Parts.split(kind, (x, *tensors)).states
        sizes = ctx.sizes = DirectionSizes(kind, x.shape, out=states[0].shape[-1], units=states[-1].shape[-1])
        ctx.recorder, ctx.has_biases = recorder, has_biases
        ctx.memory = recorder.hold(x, sizes.for_backward)
        with below_autograd(), recorder.hold_inside():
            outputs = _run(kind, has_biases, x, *tensors)
        ctx.save_for_backward(x, *tensors)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs, recorder, sizes = ctx.saved_tensors, ctx.recorder, ctx.sizes
        if torch.is_grad_enabled():
            recorder.refuse(Refusal.SECOND_GRADIENTS)
        needs = [is_asked_for(node) for node, _ in ctx.next_functions[-len(inputs) :]]
        with disable_dispatch_modes():
            results = _differentiate(partial(_run, sizes.kind, ctx.has_biases), inputs, needs, gradients)
        ctx.memory = None
        # Of two directions, both gradients are views of one: the first direction, which comes last, frees it.
        of_output = gradients[0]
        freed = 0 if of_output.storage_offset() else of_output.untyped_storage().nbytes() // of_output.element_size()
        made = Parts.split(sizes.kind, [0 if result is None else result.numel() for result in results])
        recorder.record_gradients(
            f"{sizes.kind}_backward",
            sizes.price_gradients(Parts.split(sizes.kind, inputs), Parts.split(sizes.kind, needs)),
            (*inputs, *gradients),
            results,
            bytes_inside=sizes.count_inside_backward(made, freed) * inputs[0].element_size(),
        )
        return None, None, None, *results


def _run(kind: str, has_biases: bool, x: torch.Tensor, *tensors: torch.Tensor) -> Any:
    """Return the output and the last states of a direction of a layer, as torch computes them."""
    parts = Parts.split(kind, (x, *tensors))
    hx = parts.states if kind == "lstm" else parts.states[0]
    return getattr(torch, kind)(x, hx, parts.weights, has_biases, 1, 0.0, True, False, False)


def _differentiate(
    run: Callable[..., Any], inputs: Sequence[torch.Tensor], needs: Sequence[bool], gradients: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """Return the gradient by each input, None if it is not needed; on real tensors the layer runs once more."""
    if stands_in(inputs[0]):
        return [torch.empty_like(x) if is_needed else None for x, is_needed in zip(inputs, needs, strict=True)]
    leaves = [x.detach().requires_grad_(is_needed) for x, is_needed in zip(inputs, needs, strict=True)]
    with unseen_by_functions(), torch.enable_grad(), without_onednn():
        torch.autograd.backward(run(*leaves), gradients)
    return [leaf.grad for leaf in leaves]


@contextmanager
def without_onednn() -> Iterator[None]:
    """Run without oneDNN's kernels."""
    with restored(partial(_onednn.set_flags, _onednn.enabled)):
        _onednn.set_flags(False)
        yield
