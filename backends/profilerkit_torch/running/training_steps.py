"""One training step, the same for timing and for counting: its mode, the outputs to differentiate, and its hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn

from profilerkit import InputError, ModelFailedError, ModelInputs
from profilerkit.arguments.structures import tensors_in
from profilerkit.errors import explain_missing_step
from profilerkit.process.containers import refill
from profilerkit.process.restoring import for_each, restored
from profilerkit.unfinished import require_all_finished

from ..compat.modules import ACCUMULATION_HOOKS
from ..costs import is_plain
from ..model.attributes import list_tensors
from ..model.modules import list_parameters
from .timed_passes import Autocast

__all__ = [
    "NothingTrainedError",
    "explain_missing_steps",
    "list_differentiated",
    "make_ones",
    "prepare_training_step",
    "set_training_flags",
    "without_hooks_once_accumulated",
]


class NothingTrainedError(InputError):
    """A training step has no output that a backward pass can begin from."""


def explain_missing_steps(error: NothingTrainedError | ModelFailedError) -> str:
    """As `profilerkit.errors.explain_missing_step`; of a step with nothing to train it says that."""
    if isinstance(error, NothingTrainedError):
        return "it has no backward pass: none of its outputs needs a gradient"
    return explain_missing_step(error.__cause__ or error)


def set_training_flags(modules: Iterable[nn.Module]) -> None:
    """Put modules that are all in eval mode into training mode, by the flags alone.

    If one module is in training mode, all keep their flags: a batch norm that was frozen with ``eval()`` stays frozen.
    """
    modules = list(modules)
    if not any(getattr(module, "training", True) for module in modules):  # a frozen script has no such flag
        for module in modules:
            module.training = True


@contextmanager
def prepare_training_step(model: nn.Module) -> Iterator[Callable[..., None]]:
    """Yield a function that runs one training step of the model; it is called like `forward_pass`.

    It also calls a function between forward and backward. The gradients stay on the parameters: use inside `preserve`.
    Hooks that run when a parameter has its gradient (such as an optimizer's update) are left out: they would change the
    model.
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
            differentiated = list_differentiated(outputs)
            if not differentiated:
                require_all_finished(outputs)
                raise NothingTrainedError(
                    "training=True: none of the model's outputs depends on a weight that is trained; give its weights "
                    "requires_grad=True, or leave training out"
                )
            torch.autograd.backward(differentiated, [make_ones(output) for output in differentiated])

    with without_hooks_once_accumulated(trained):
        yield step


def list_differentiated(outputs: Any) -> list[torch.Tensor]:
    """Return, each once, the outputs that need gradients; only the loss if the model returns one.

    The attributes of an object of a user's class count only if no other output needs gradients: beside such outputs
    the object is a cache of keys and values, which is no part of a loss.
    """
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.requires_grad and loss.numel() == 1:
        return [loss]
    return _list_trained(tensors_in(outputs, torch.is_tensor)) or _list_trained(list_tensors((outputs,)))


def _list_trained(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return list({id(tensor): tensor for tensor in tensors if tensor.requires_grad}.values())


def make_ones(output: torch.Tensor) -> torch.Tensor:
    """Return a gradient of ones for an output; dense for sparse tensors, because torch has no sparse ones."""
    if is_plain(output) or output.is_nested:
        return torch.ones_like(output.conj() if output.is_conj() else output)  # a conjugate would be copied first
    return torch.ones(output.shape, dtype=output.dtype, device=output.device)


@contextmanager
def without_hooks_once_accumulated(parameters: Iterable[Any]) -> Iterator[None]:
    """Empty the mappings of hooks that run once a parameter has its gradient, and fill them again at the end.

    Autograd refers to the mapping: to remove the mapping from the parameter would not stop the hooks.
    """
    mappings = [getattr(parameter, name) for parameter in parameters for name in ACCUMULATION_HOOKS]
    hooks = [(mapping, dict(mapping)) for mapping in mappings if mapping]
    with restored(partial(for_each, refill, hooks)):
        for mapping, _ in hooks:
            mapping.clear()
        yield
