"""Devices by JAX's names: "cpu", "gpu:1", "tpu:0"."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import jax

from profilerkit import Device, DeviceNotAvailableError
from profilerkit.backend import DEVICE, DeviceLike
from profilerkit.devices.here import describe_device, processor
from profilerkit.devices.info import DeviceInfo

from ..model.subject import Subject

__all__ = ["device_info", "device_named", "devices_here", "find_bound_devices", "list_host_devices", "resolve_device"]

_NAME = re.compile(r"([a-z][a-z0-9_]*)(?::(\d+))?", re.IGNORECASE)
#: The flag of XLA that says how many there are, where the environment has one.
_FORCED = "--xla_force_host_platform_device_count"
#: What else the platforms of GPUs are called.
_GPUS = ("cuda", "gpu", "rocm")


def _shorten(device: Any) -> str:
    """Return the short name of a device of JAX's; the first CPU has no number."""
    platform = "gpu" if device.platform in _GPUS else str(device.platform)
    return platform if platform == "cpu" and device.id == 0 else f"{platform}:{device.id}"


def devices_here() -> dict[str, Any]:
    """Return the devices of this process by their short names; the CPU is always among them."""
    every = [*jax.local_devices(backend="cpu"), *jax.local_devices()]
    return {_shorten(device): device for device in every}


def list_host_devices(number: int) -> Mapping[str, str]:
    """Return the environment variables by which JAX sees so many devices in a new process: parts of this CPU."""
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(_FORCED)]
    return {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(number), "XLA_FLAGS": " ".join(flags)}


def resolve_device(subject: Subject | None, device: DeviceLike) -> str:
    """Return the short name of a device: "cpu", "gpu:0"; for None that of the weights, else the usual one.

    Weights that are spread over several give the number of these, "8 x gpu", which names no device to run on. Raises
    `DeviceNotAvailableError` for a device that JAX does not have in this process.
    """
    device = DEVICE("device", device)
    if device is None:
        bound = () if subject is None else find_bound_devices(subject.values)
        name = _shorten(_find_device(subject))
        return f"{len(bound)} x {name.partition(':')[0]}" if len(bound) > 1 else name
    here = devices_here()
    requested = {Device.CPU: "cpu", Device.GPU: "gpu"}.get(device, device) if isinstance(device, Device) else device
    named = _NAME.fullmatch(str(requested))
    if named is not None:
        platform, index = named[1].lower(), int(named[2] or 0)
        platform = "gpu" if platform in _GPUS else platform
        name = f"{platform}:{index}"
        if name in here:
            return name
        if not index and platform in here:  # the first CPU has no number
            return platform
    raise DeviceNotAvailableError(
        f"device {device!r} is not there; the devices of JAX in this process are: {', '.join(here)}"
    )


def find_bound_devices(arrays: Iterable[Any]) -> set[Any]:
    """Return the devices that arrays are bound to; the others go where the model runs."""
    return {device for array in arrays if getattr(array, "committed", False) for device in array.devices()}


def _find_device(subject: Subject | None) -> Any:
    """Return the device of the first weight that is on one alone, else JAX's usual device."""
    for value in () if subject is None else subject.values:
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and len(value.devices()) == 1:
            return next(iter(value.devices()))
    chosen = getattr(jax.config, "jax_default_device", None)
    return chosen if hasattr(chosen, "platform") else jax.local_devices()[0]


def device_named(name: str) -> Any:
    """Return JAX's device of a short name."""
    return devices_here()[name]


def device_info(name: str) -> DeviceInfo:
    """Return what is known of the device of a short name, by the kind that JAX reports."""
    device = device_named(name)
    if device.platform == "cpu":
        return processor()
    return describe_device(str(device.device_kind), "tpu" if device.platform == "tpu" else "gpu")
