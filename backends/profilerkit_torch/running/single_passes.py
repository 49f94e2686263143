"""What runs one pass of a model: forward for inference, or a training step; under autocast or without."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn

from profilerkit import InputError, ModelInputs
from profilerkit.process.restoring import for_each, restored

from ..compat.modules import ACCUMULATION_HOOKS
from ..compat.names import VERSION
from ..model.attributes import list_reachable
from ..model.modules import list_modules, list_parameters
from ..untouched.snapshots import refill

__all__ = [
    "NothingTrainedError",
    "forward_pass",
    "forward_pass_with_gradients",
    "make_autocast",
    "prepare_training_step",
    "set_training_flags",
    "without_hooks_once_accumulated",
]

#: Makes the context of autocast for one pass.
Autocast: TypeAlias = Callable[[], AbstractContextManager[Any]]


def forward_pass(model: Callable[..., Any], inputs: ModelInputs, autocast: Autocast) -> Any:
    """Run the model once without gradients, and return its outputs; the caller sets the mode."""
    with torch.no_grad(), autocast():
        return inputs.run(model)


def forward_pass_with_gradients(model: Callable[..., Any], inputs: ModelInputs, autocast: Autocast) -> Any:
    """Run a model once that computes gradients and relies on its caller to enable them, and return its outputs."""
    with torch.enable_grad(), autocast():
        return inputs.run(model)


@contextmanager
def prepare_training_step(model: nn.Module) -> Iterator[Callable[..., None]]:
    """Yield what runs one training step of the model, as `forward_pass` is called; and a call between its two parts.

    The gradients are left on the parameters: use inside `preserve`. What a parameter does once it has its gradient
    (such as an optimizer's update) is left out, since it would change the model.
    """
    trained = [parameter for parameter in list_parameters(model) if parameter.requires_grad]

    def step(
        called: Callable[..., Any],
        inputs: ModelInputs,
        autocast: Autocast,
        between: Callable[[], object] = nullcontext,
    ) -> None:
        for parameter in trained:
            parameter.grad = None
        with torch.enable_grad():
            with autocast():
                outputs = inputs.run(called)
            between()
            roots = _find_roots(outputs)
            torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])

    with without_hooks_once_accumulated(trained):
        yield step


class NothingTrainedError(InputError):
    """A step of training has no output to go back from."""


def _find_roots(outputs: Any) -> list[torch.Tensor]:
    """Return the outputs that gradients go back from."""
    tensors = (value for value in list_reachable((outputs,)) if isinstance(value, torch.Tensor))
    roots = [tensor for tensor in tensors if tensor.requires_grad]
    if not roots:
        raise NothingTrainedError(
            "training=True: none of the model's outputs depends on a weight that is trained; give its weights "
            "requires_grad=True, or leave training out"
        )
    return roots


@contextmanager
def without_hooks_once_accumulated(parameters: Iterable[Any]) -> Iterator[None]:
    """Empty the mappings of what parameters do once they have a gradient: autograd goes on calling what they hold.

    It has the mapping itself; to take that off the parameter changes nothing for it.
    """
    mappings = [getattr(parameter, name) for parameter in parameters for name in ACCUMULATION_HOOKS]
    hooks = [(mapping, dict(mapping)) for mapping in mappings if mapping]
    with restored(partial(for_each, refill, hooks)):
        for mapping, _ in hooks:
            mapping.clear()
        yield


def set_training_flags(model: nn.Module) -> None:
    """Put a model that is in eval mode into training mode, by the flags alone; one that is in training stays as it is.

    A part of it that is kept in eval mode while the rest is trained, a frozen batch norm, stays so.
    """
    if not model.training:
        for module in list_modules(model):
            module.training = True


def make_autocast(autocast: Any, device: torch.device) -> Autocast:
    """Return what makes the context of one pass under autocast; each has one of its own, as in the user's code.

    Raises `InputError` if ``autocast`` is not a dtype, or one that autocast does not support on the device.
    """
    if autocast is None or autocast is False:
        return nullcontext
    dtype = getattr(torch, autocast.removeprefix("torch."), None) if isinstance(autocast, str) else autocast
    if autocast is not True and not isinstance(dtype, torch.dtype):
        raise InputError(f"autocast={autocast!r}: give True, or a dtype such as torch.bfloat16 or 'bfloat16'")

    def context() -> AbstractContextManager[Any]:
        return torch.autocast(device.type, dtype=None if autocast is True else dtype)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, that it leaves autocast off
        try:
            with context():
                works = torch.is_autocast_enabled(device.type)
        except RuntimeError:
            works = False
    if not works:
        raise InputError(f"autocast={autocast!r}: torch {VERSION} does not support that on {device.type}")
    return context
