"""The work of a way of spreading a model in the step of a rank, beside torch's own work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule

from profilerkit import ModelInputs
from profilerkit.backend_kit.graph_traces import NO_BACKWARD_PASS
from profilerkit_predict.meshes.records import OptimizerShare

from ..running.training_steps import list_differentiated
from ..trace.live_bytes import LiveBytes
from ..training.differentiation import follow_gradients, make_loss
from .rank_memory import find_share
from .recorder import RankRecorder

__all__ = ["StepScheme", "rehearse"]


class StepScheme:
    """Adds nothing to a step: the library that spreads the model does all the work."""

    #: The share that the optimizer updates in place of the weights; None: the weights.
    optimizer_share: OptimizerShare | None = None
    #: The bytes of the gradients that are kept for the optimizer; None: of the gradients of the parameters.
    gradient_bytes: int | None = None

    def prepare(self, model: nn.Module, rehearse: Callable[[], None]) -> None:
        """Prepare a model that has its tensors now; ``rehearse`` runs a step of it without recording."""

    def select_inputs(self, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs of the model that this rank gets."""
        return inputs

    def find_share(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the part of a weight that this rank keeps between steps."""
        return find_share(tensor)

    def in_step(self, recorder: RankRecorder) -> AbstractContextManager[Any]:
        """Return a context manager that is active in the step."""
        return nullcontext()

    def run(self, model: nn.Module, inputs: ModelInputs, recorder: RankRecorder, passes: int) -> list[str]:
        """Run the step, whose gradients are the sums over so many passes; return notes on it."""
        outputs: list[Any] = []
        notes: list[str] = []
        for number in range(passes):
            self.synchronize(model, is_last=number == passes - 1)
            notes = _run_pass(model, inputs, recorder, outputs)
        return notes

    def synchronize(self, model: nn.Module, is_last: bool) -> None:
        """Reduce the gradients in the last pass alone, as training loops do."""
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_requires_gradient_sync(is_last, recurse=False)


def _run_pass(model: nn.Module, inputs: ModelInputs, recorder: RankRecorder, outputs: list[Any]) -> list[str]:
    """Run a model, and go back from the loss that it returns, or else from the sum of its outputs; return notes.

    ``outputs`` holds the results of the model until the next pass replaces them, like a variable of a training loop.
    Calls of layers that a checkpoint runs again are kept apart: they are not further calls.
    """
    recorder.begin("forward")
    outputs[:] = [inputs.run(model)]
    recorder.begin("backward")
    differentiated = _list_differentiated(outputs[0])
    if not differentiated:
        return [NO_BACKWARD_PASS]
    loss, start = make_loss(differentiated, recorder.live)
    with recorder.layers.apart(), follow_gradients(model.parameters(), recorder.note_trained):
        loss.backward(start)
    return []


def rehearse(model: nn.Module, inputs: ModelInputs) -> None:
    """Run a step without recording."""
    differentiated = _list_differentiated(inputs.run(model))
    if differentiated:
        loss, start = make_loss(differentiated, LiveBytes())
        loss.backward(start)


def _list_differentiated(outputs: Any) -> list[torch.Tensor]:
    """Return this rank's part of each output to differentiate, with the graph that leads to it."""
    return [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in list_differentiated(outputs)]
