"""Devices by torch's names: the devices of this machine, the facts of each, and moving a model to one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from profilerkit import Device, DeviceNotAvailableError, WithoutValuesError
from profilerkit.backend import DEVICE, DeviceLike
from profilerkit.devices import describe_device, processor
from profilerkit.devices.info import DeviceInfo, Figure

from ..compat.names import VERSION
from ..model.inventory import Inventory, is_lazy
from ..model.keras_layers import use_keras_device
from ..untouched.preservation import substitute

__all__ = ["describe_accelerators", "device_info", "memory_reader", "move_model", "require_values", "resolve_device"]


def resolve_device(model: nn.Module | Inventory, device: DeviceLike) -> torch.device:
    """Return the torch device for a member of `Device`, a string of torch, or None (the model's device).

    Raises `DeviceNotAvailableError` for a device that does not exist here.
    """
    device = DEVICE("device", device)
    if device is None:
        return Inventory.of(model).device
    if device is Device.CPU:
        return torch.device("cpu")
    name = _require_accelerator() if device is Device.GPU else device
    try:
        resolved = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise DeviceNotAvailableError(
            f"torch knows no device {device!r}; use Device.CPU, Device.GPU or a string such as 'cpu', 'cuda:1', 'mps'"
        ) from error
    if resolved.type in ("cpu", "meta"):
        return resolved
    here = _list_accelerators()
    if torch.device(resolved.type, resolved.index or 0) not in here:
        names = ", ".join(map(str, ["cpu", *here]))
        raise DeviceNotAvailableError(f"device {device!r} is not there; torch {VERSION} sees here: {names}")
    return resolved


def _list_accelerators() -> list[torch.device]:
    """Return the accelerators that torch sees here: of one kind, numbered from 0."""
    kind = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return [] if kind is None else [torch.device(kind.type, index) for index in range(torch.accelerator.device_count())]


def _require_accelerator() -> str:
    """Return the kind of accelerator that torch sees here, such as "cuda"."""
    here = _list_accelerators()
    if not here:
        raise DeviceNotAvailableError(
            f"Device.GPU was requested, but torch {VERSION} sees no accelerator here; use Device.CPU, or a "
            "build of torch and a driver for the GPU"
        )
    return here[0].type


def describe_accelerators() -> dict[str, str]:
    """Return the names of the accelerators here, the memory of each, and the version of CUDA or ROCm."""
    here = _list_accelerators()
    if not here:
        return {}
    if here[0].type != "cuda":
        return {"accelerators": ", ".join(map(str, here))}
    properties = [torch.cuda.get_device_properties(device.index) for device in here]
    versions = {"cuda": torch.version.cuda, "rocm": torch.version.hip, "cudnn": torch.backends.cudnn.version()}
    return {
        "accelerators": ", ".join(device.name for device in properties),
        "accelerator_memory_bytes": ", ".join(str(device.total_memory) for device in properties),
        **{name: str(version) for name, version in versions.items() if version is not None},
    }


def device_info(device: torch.device) -> DeviceInfo:
    """Return the known facts of a device, by the name that its driver reports."""
    if device.type == "cpu":
        return processor()
    if device.type != "cuda":
        return describe_device(str(device), "gpu")
    properties = torch.cuda.get_device_properties(device)
    figures = {"memory_size": Figure(float(properties.total_memory), "the driver")}
    return describe_device(properties.name, "gpu", figures)


def memory_reader(device: torch.device) -> Any:
    """Return the module that reports the memory of a device: ``memory_allocated`` and ``max_memory_allocated``.

    It is the module of the device, or ``torch.accelerator``, which has both from torch 2.9 on. None if torch does not
    report a peak, as for MPS. The device has to be one that a tensor is on.
    """
    for module in (getattr(torch, device.type, None), torch.accelerator):
        try:
            module.max_memory_allocated(device)  # type: ignore[union-attr]
        except (AttributeError, NotImplementedError, RuntimeError, ValueError):
            continue
        return module
    return None


def require_values(model: nn.Module | Inventory, device: torch.device) -> None:
    """Raise `WithoutValuesError` if weights have no values to run with: lazy parameters, or the meta device."""
    inventory = Inventory.of(model)
    if is_lazy(inventory):
        raise WithoutValuesError(
            "the model has lazy parameters without values; call it once with real inputs before running it"
        )
    if device.type == "meta" or any(tensor.is_meta for tensor in inventory.tensors):
        raise WithoutValuesError(
            "the model is on the meta device and its weights have no values: it cannot be run, only its static metrics "
            "can be had; materialise it with model.to_empty(device='cpu') to time it"
        )


@contextmanager
def move_model(inventory: Inventory, device: torch.device | None) -> Iterator[Inventory]:
    """Move a model to a device, and yield its tensors there; without a device it is not moved.

    Copies stand in for the tensors on other devices; the tensors themselves are not moved. Use inside `preserve`,
    which takes the stand-ins away.
    """
    if device is None:
        yield inventory
        return
    if any(tensor.device != device for tensor in inventory.tensors):
        substitute(inventory.model, lambda tensor: _move(tensor, device), inventory)
        inventory = Inventory(inventory.model)
    with use_keras_device(inventory.model, device):
        yield inventory


def _move(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.is_meta:  # a rest of Keras' symbolic calls
        return tensor
    moved = tensor.detach().to(device)
    return nn.Parameter(moved, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else moved
