"""One pass of a model as it is timed: what runs it, forward or a training step, and the clock, the host's or CUDA's."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.passes import DevicePass
from profilerkit.process.restoring import for_each, restored

from ..compat.modules import ACCUMULATION_HOOKS
from ..compat.names import VERSION
from ..model.attributes import list_reachable
from ..model.modules import list_modules, list_parameters
from ..untouched.snapshots import refill
from ..untouched.temporary_settings import disable_compiling
from .observation import Observation, without_fused_layers

__all__ = [
    "EventTimedPass",
    "NothingTrainedError",
    "Pass",
    "forward_pass",
    "forward_pass_with_gradients",
    "make_autocast",
    "prepare_training_step",
    "set_training_flags",
    "synchronize",
    "without_hooks_once_accumulated",
]


def synchronize(*devices: torch.device) -> None:
    """Wait until all work of the devices is done."""
    for device in devices:
        if device.type not in ("cpu", "meta"):
            torch.accelerator.synchronize(device)


class Pass(DevicePass):
    """A run whose call returns when every device that it uses is done."""

    def __init__(
        self,
        call: Callable[[], Any],
        devices: Sequence[torch.device],
        in_parts: Callable[[Callable[[], None]], Any] | None = None,
    ) -> None:
        super().__init__(call, partial(synchronize, *devices), in_parts)
        self.devices = devices
        #: What looks at the operators of a pass; None where nothing does.
        self.observation: Observation | None = None

    @contextmanager
    def observe(self) -> Iterator[None]:
        """Add up what the operators of one pass multiply and add, as they were written.

        Layers that are fused stay so, as in the passes that are timed, unless they leave padding out.
        """
        if self.observation is None:
            yield
            return
        layers = without_fused_layers() if self.observation.has_padding_left_out else nullcontext()
        self.observation.begin()
        with disable_compiling(), layers, self.observation:
            yield
        self.runs.append(self.observation.run("a later run"))


class EventTimedPass(Pass):
    """A pass on one CUDA device, which notes itself when its work begins and ends."""

    def seconds(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """Run one pass and return its seconds, from its first work on the device to its last."""
        device = next(used for used in self.devices if used.type == "cuda")
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.device(device):
            start.record()
            self.call()
            end.record()
        synchronize(device)
        return float(start.elapsed_time(end)) / 1000  # events are in milliseconds

    @staticmethod
    def suits(devices: Iterable[torch.device]) -> bool:
        """Return whether all the work is on one CUDA device: an event is noted in the order of work of one alone."""
        return [used.type for used in devices if used.type != "cpu"] == ["cuda"]


#: Makes the context of autocast for one pass.
Autocast: TypeAlias = Callable[[], AbstractContextManager[Any]]


# What runs a pass -----------------------------------------------------------------------------------------------------


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
