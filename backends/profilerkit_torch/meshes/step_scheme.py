"""What a way of spreading a model does in the step of a rank, beside what torch does by itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule

from profilerkit import ModelInputs
from profilerkit_predict.meshes.records import OptimizerShare

from .passes import run_passes
from .recorder import RankRecorder
from .shares import find_share

__all__ = ["StepScheme"]


class StepScheme:
    """Adds nothing to a step: what spreads the model does all that is to be done."""

    #: Whether each block of the model is spread, and does its work, as its neighbours do.
    IS_BY_BLOCK: ClassVar[bool] = True
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

    def run(self, model: nn.Module, inputs: ModelInputs, recorder: RankRecorder, passes: int) -> list[str]:
        """Run the step, whose gradients are those of so many passes added up; return notes on it."""
        outputs: list[Any] = []
        notes: list[str] = []
        for number in range(passes):
            self.synchronize(model, is_last=number == passes - 1)
            notes = run_passes(model, inputs, recorder, outputs)
        return notes

    def synchronize(self, model: nn.Module, is_last: bool) -> None:
        """Have the gradients reduced in the last pass alone, as training loops do."""
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_requires_gradient_sync(is_last, recurse=False)
