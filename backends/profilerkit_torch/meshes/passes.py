"""The forward and the backward pass of a model whose tensors are spread, or of a rehearsal of it."""

from __future__ import annotations

import torch
from torch import nn

from profilerkit import ModelInputs

from ..trace.live_bytes import LiveBytes
from ..training.differentiation import NO_BACKWARD_PASS, follow_gradients, list_differentiated, make_loss, note_unused
from .recorder import RankRecorder
from .shares import find_gradient, take_share

__all__ = ["rehearse", "run_passes"]


def run_passes(model: nn.Module, inputs: ModelInputs, recorder: RankRecorder) -> list[str]:
    """Run a model, and go back from the loss that it returns, or else from the sum of its outputs; return notes.

    Layers that a checkpoint runs once more are no calls of their own: their calls are kept apart.
    """
    recorder.begin("forward")
    outputs = inputs.run(model)  # these are alive to the end, as in a loop of training
    recorder.begin("backward")
    differentiated = [take_share(tensor) for tensor in list_differentiated(outputs)]
    if not differentiated:
        return [NO_BACKWARD_PASS]
    trained: set[int] = set()

    def note(parameter: torch.Tensor) -> None:
        trained.add(id(parameter))
        recorder.note_gradients([find_gradient(parameter)])

    loss, start = make_loss(differentiated, recorder.live)
    with recorder.layers.apart(), follow_gradients(model.parameters(), note):
        loss.backward(start)
    return note_unused(
        (name, weight)
        for name, weight in model.named_parameters()
        if weight.requires_grad and id(weight) not in trained  # a scheme may have taken its gradient away
    )


def rehearse(model: nn.Module, inputs: ModelInputs) -> None:
    """Run a step that nobody records."""
    differentiated = [take_share(tensor) for tensor in list_differentiated(inputs.run(model))]
    if differentiated:
        loss, start = make_loss(differentiated, LiveBytes())
        loss.backward(start)
