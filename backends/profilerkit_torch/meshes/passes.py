"""The forward and the backward pass of a model whose tensors are spread, or of a rehearsal of it."""

from __future__ import annotations

from typing import Any

from torch import nn

from profilerkit import ModelInputs

from ..trace.live_bytes import LiveBytes
from ..training.differentiation import NO_BACKWARD_PASS, follow_gradients, list_differentiated, make_loss
from .recorder import RankRecorder
from .shares import take_share

__all__ = ["rehearse", "run_passes"]


def run_passes(model: nn.Module, inputs: ModelInputs, recorder: RankRecorder, outputs: list[Any]) -> list[str]:
    """Run a model, and go back from the loss that it returns, or else from the sum of its outputs; return notes.

    ``outputs`` gets what it returns in place of what the passes before have returned, as a variable of a training loop
    does: that is alive until then. Layers that a checkpoint runs once more are no calls of their own: their calls are
    kept apart.
    """
    recorder.begin("forward")
    outputs[:] = [inputs.run(model)]
    recorder.begin("backward")
    differentiated = [take_share(tensor) for tensor in list_differentiated(outputs[0])]
    if not differentiated:
        return [NO_BACKWARD_PASS]
    loss, start = make_loss(differentiated, recorder.live)
    with recorder.layers.apart(), follow_gradients(model.parameters(), recorder.note_trained):
        loss.backward(start)
    return []


def rehearse(model: nn.Module, inputs: ModelInputs) -> None:
    """Run a step that nobody records."""
    differentiated = [take_share(tensor) for tensor in list_differentiated(inputs.run(model))]
    if differentiated:
        loss, start = make_loss(differentiated, LiveBytes())
        loss.backward(start)
