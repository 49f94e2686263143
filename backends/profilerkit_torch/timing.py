"""Running a model for real: on a device, in eval mode and without gradients, and handed back untouched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from profilerkit import Device, DeviceNotAvailableError, ModelInputs, WithoutValuesError
from profilerkit.backend import DeviceLike
from profilerkit.errors import model_failed

from .guard import WriteGuard
from .keras_layers import called_as_keras_does, keras_device
from .layers import is_lazy
from .modules import buffers_of, parameters_of, set_inference_flags, tensors_of
from .preservation import preserved, substitute, unchanged_parameters

__all__ = ["device_of", "needs_autograd", "placed", "require_values", "resolve_device", "running", "synchronize"]


def device_of(model: nn.Module) -> torch.device:
    """Return where the model is: the device of its first parameter or buffer, the CPU where it has none."""
    return next((tensor.device for tensor in tensors_of(model)), torch.device("cpu"))


def resolve_device(model: nn.Module, device: DeviceLike) -> torch.device:
    """Return the torch device for a member of `Device`, a string of torch's, or None (where the model is).

    Raises `DeviceNotAvailableError` for one that does not exist here.
    """
    if device is None:
        return device_of(model)
    if device is Device.CPU:
        return torch.device("cpu")
    wanted = _accelerator_name() if device is Device.GPU else device
    try:
        resolved = torch.device(wanted)
    except (RuntimeError, TypeError) as error:
        raise DeviceNotAvailableError(
            f"torch knows no device {device!r}; use Device.CPU, Device.GPU or a string such as 'cpu', 'cuda:1', 'mps'"
        ) from error
    if resolved.type in ("cpu", "meta"):
        return resolved
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    count = torch.accelerator.device_count() if accelerator is not None else 0
    if accelerator is None or accelerator.type != resolved.type or (resolved.index or 0) >= count:
        here = ", ".join(["cpu", *(f"{accelerator.type}:{index}" for index in range(count) if accelerator)])
        raise DeviceNotAvailableError(f"device {device!r} is not there; torch {torch.__version__} sees here: {here}")
    return resolved


def _accelerator_name() -> str:
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        raise DeviceNotAvailableError(
            f"Device.GPU was asked for, but torch {torch.__version__} sees no accelerator here; use Device.CPU, or a "
            "build of torch and a driver for the GPU"
        )
    return accelerator.type


def synchronize(device: torch.device) -> None:
    """Return when all work given to the device is done."""
    if device.type not in ("cpu", "meta"):
        torch.accelerator.synchronize(device)


def require_values(model: nn.Module, device: torch.device) -> None:
    """Raise `WithoutValuesError` where there is nothing to run with: lazy parameters, or the meta device."""
    if is_lazy(model):
        raise WithoutValuesError(
            "the model has lazy parameters without values; call it once with real inputs before running it"
        )
    if device.type == "meta" or any(tensor.is_meta for tensor in tensors_of(model)):
        raise WithoutValuesError(
            "the model is on the meta device and its weights have no values: it cannot be run, only its static metrics "
            "can be had; materialise it with model.to_empty(device='cpu') to time it"
        )


@contextmanager
def placed(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Let the model stand on a device: copies stand in for the tensors that are elsewhere, itself it stays.

    Use inside `preserved`, which takes the stand-ins away.
    """
    if any(tensor.device != device for tensor in tensors_of(model)):
        substitute(model, lambda tensor: _moved(tensor, device))
    with keras_device(model, device):
        yield


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.is_meta:  # a rest of Keras' symbolic calls
        return tensor
    twin = tensor.detach().to(device)
    return nn.Parameter(twin, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else twin


@contextmanager
def running(model: nn.Module, inputs: ModelInputs, device: DeviceLike) -> Iterator[Callable[[], Any]]:
    """Yield a call that runs one forward pass without gradients and returns when every device is done.

    Not in torch's inference mode, whose tensors could stay behind in a cache and break the user's training. The first
    pass runs under a guard that keeps whatever the model writes to; it gets that back at the end, and its buffers in
    any case. Without a device the model stays where it is, on several devices too.
    """
    target = resolve_device(model, device)
    require_values(model, target)
    sharded = device is None and len({tensor.device for tensor in tensors_of(model)}) > 1
    with preserved(model), placed(model, target) if not sharded else nullcontext():
        set_inference_flags(model)
        fed = called_as_keras_does(model, inputs).map(
            lambda leaf: leaf.to(target) if isinstance(leaf, torch.Tensor) else leaf
        )
        gradients = [parameter.grad for parameter in parameters_of(model) if parameter.grad is not None]
        tensors = [leaf for leaf in fed.leaves() if isinstance(leaf, torch.Tensor)]
        guard = WriteGuard([*tensors_of(model), *gradients, *tensors])
        devices = {target, *(tensor.device for tensor in tensors_of(model))}
        with guard.restoring():
            guard.keep([*buffers_of(model), *gradients])
            _first_pass(model, fed, guard)

            def call() -> None:
                with torch.no_grad():
                    fed.run(model)
                for used in devices:
                    synchronize(used)

            with unchanged_parameters(model, watched=guard.guards):
                yield call


def needs_autograd(error: Exception) -> bool:
    """Say whether a model seems to compute gradients while it runs, which inference mode does not let it."""
    return isinstance(error, RuntimeError) and any(word in str(error) for word in ("grad", "nference"))


def _first_pass(model: nn.Module, inputs: ModelInputs, guard: WriteGuard) -> None:
    """Run once under the guard; raise `ModelFailedError` where the model does."""
    try:
        with torch.no_grad(), guard:
            inputs.run(model)
    except Exception as error:  # whatever the model raises
        raise model_failed(error, inputs) from error
