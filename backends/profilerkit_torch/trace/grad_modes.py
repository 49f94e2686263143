"""How a pass treats gradients, and why one kind of pass may have to give way to the next.

A run to be timed computes no gradients: it is under ``torch.no_grad()``. So is the first kind of pass, but it leaves
autograd out: operators arrive before autograd takes them apart, as they do in ``torch.inference_mode()``. That mode is
not on: a model may ask for it, and its tensors are of a kind of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import Any, TypeAlias

import torch

from ..compat.autograd import without_autograd_kernels

__all__ = ["GRAD_MODES", "GradMode", "PassError", "Refusal", "below_autograd"]

GradMode: TypeAlias = Callable[[], AbstractContextManager[Any]]


@contextmanager
def below_autograd() -> Iterator[None]:
    """Run without gradients, and without autograd's kernels: operators are seen before they are taken apart."""
    with torch.no_grad(), without_autograd_kernels():
        yield


#: A model that computes gradients itself may do so in the second, or where it relies on its caller in the third.
GRAD_MODES: tuple[GradMode, ...] = (below_autograd, torch.no_grad, torch.enable_grad)


class Refusal(Enum):
    """Why a kind of pass cannot do what the model does in a run, where the next may; its value is said."""

    #: Autocast would not do what it does in the user's run: it passes meta tensors by.
    AUTOCAST = "autocast leaves meta tensors as they are, and keeps its casts by autograd"
    #: Without autograd gradients would be missing, or zero.
    GRADIENTS = "the model computes gradients in its forward pass, and this pass is without autograd"
    #: The backward pass of a whole layer is one operator, which has no gradients of its own.
    SECOND_GRADIENTS = "the model differentiates gradients of a recurrent layer, and this pass runs it as one operator"
    #: Without autograd not all tensors know whether they are views.
    VIEW = "the model asks a tensor whether it is a view, and this pass is without autograd"


class PassError(RuntimeError):
    """Raised where a kind of pass refuses what the model does; ``reason`` says why."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.value)
        self.reason = reason
