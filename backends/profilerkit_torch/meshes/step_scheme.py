"""What a way of spreading a model does in the step of a rank, beside what torch does by itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit_predict.meshes.records import OptimizerShare

from .passes import run_passes
from .recorder import RankRecorder
from .shares import find_share

__all__ = ["StepScheme"]


class StepScheme:
    """Adds nothing to a step: what spreads the model does all that is to be done."""

    #: What the optimizer updates in place of the weights; None: the weights.
    optimizer_share: OptimizerShare | None = None
    #: The bytes of the gradients that are kept for it; None: of those that the parameters have.
    gradient_bytes: int | None = None

    def prepare(self, model: nn.Module, rehearse: Callable[[], None]) -> None:
        """Make ready a model that has its tensors now; ``rehearse`` runs a step of it that nobody records."""

    def select_inputs(self, inputs: ModelInputs) -> ModelInputs:
        """Return those of the model's inputs that this rank gets."""
        return inputs

    def find_share(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the part of a weight that this rank keeps between steps."""
        return find_share(tensor)

    def in_step(self, recorder: RankRecorder) -> AbstractContextManager[Any]:
        """Return what is active in the step."""
        return nullcontext()

    def run(self, model: nn.Module, inputs: ModelInputs, recorder: RankRecorder) -> list[str]:
        """Run the step, and return notes on it."""
        return run_passes(model, inputs, recorder)
