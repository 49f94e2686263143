"""Devices by short names: "cpu", "gpu:1", "tpu:0".

All platforms of GPUs are called "gpu" here, and the first CPU has no number.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import jax

from profilerkit import Device, DeviceNotAvailableError
from profilerkit.backend import DEVICE, DeviceLike
from profilerkit.devices import describe_device, processor
from profilerkit.devices.info import DeviceInfo

from ..model.subject import Subject

__all__ = ["device_info", "devices_here", "find_bound_devices", "list_host_devices", "resolve_device"]

#: A platform, and a number.
_NAME = re.compile(r"([a-z][a-z0-9_]*)(?::(\d+))?", re.IGNORECASE)
#: The flag of XLA that also says how many devices a CPU has.
_CPU_DEVICES_FLAG = "--xla_force_host_platform_device_count"
#: JAX's names for the platforms of GPUs.
_GPUS = ("cuda", "gpu", "rocm")


def _name_platform(platform: str) -> str:
    """Return the name of a platform, which JAX calls by its vendor's."""
    return "gpu" if platform in _GPUS else platform


def _make_name(platform: str, number: int) -> str:
    """Return the short name of a device of a platform."""
    platform = _name_platform(platform)
    return platform if platform == "cpu" and number == 0 else f"{platform}:{number}"


def devices_here() -> dict[str, Any]:
    """Return the devices of this process by their short names, the CPU first unless ``JAX_PLATFORMS`` leaves it out.

    They are numbered in this process: JAX's own numbers go on over the processes of ``jax.distributed``.
    """
    platforms = (_list_cpus(), jax.local_devices())
    return {_make_name(device.platform, number): device for here in platforms for number, device in enumerate(here)}


def _list_cpus() -> list[Any]:
    try:
        return list(jax.local_devices(backend="cpu"))
    except RuntimeError:  # as with JAX_PLATFORMS=cuda
        return []


def list_host_devices(number: int) -> Mapping[str, str]:
    """Return the environment variables by which JAX sees so many devices in a new process: parts of this CPU."""
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(_CPU_DEVICES_FLAG)]
    return {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(number), "XLA_FLAGS": " ".join(flags)}


def resolve_device(subject: Subject | None, device: DeviceLike) -> str:
    """Return the short name of a device: "cpu", "gpu:0"; for None the weights' device, otherwise JAX's default.

    Weights on several devices give the number of devices, "8 x gpu", which is no device to run on. Raises
    `DeviceNotAvailableError` for a device that JAX does not have in this process.
    """
    device = DEVICE("device", device)
    if device is None:
        return _name_device_of_weights(subject)
    here, name = devices_here(), _read_name(device.value if isinstance(device, Device) else str(device))
    if name not in here:
        raise DeviceNotAvailableError(
            f"device {device!r} is not there; the devices of JAX in this process are: {', '.join(here)}"
        )
    return name


def _read_name(text: str) -> str:
    """Return the short name of the device that a user calls "CUDA:1", for example; empty for no name of a device."""
    match = _NAME.fullmatch(text)
    return "" if match is None else _make_name(match[1].lower(), int(match[2] or 0))


def _name_device_of_weights(subject: Subject | None) -> str:
    """Return the short name of the device that weights are bound to, the number of several, or JAX's default."""
    bound = set[Any]() if subject is None else find_bound_devices(subject.values)
    if len(bound) > 1:
        platforms = Counter(_name_platform(device.platform) for device in bound)
        return ", ".join(f"{number} x {platform}" for platform, number in sorted(platforms.items()))
    device = bound.pop() if bound else _find_default_device()
    in_another_process = _make_name(device.platform, device.id)
    return next((name for name, here in devices_here().items() if here == device), in_another_process)


def find_bound_devices(arrays: Iterable[Any]) -> set[Any]:
    """Return the devices that arrays are bound to; arrays that are bound to none go where the model runs."""
    return {device for array in arrays if getattr(array, "committed", False) for device in array.devices()}


def _find_default_device() -> Any:
    """Return the device where JAX runs what is bound to none."""
    chosen = getattr(jax.config, "jax_default_device", None)
    is_device = chosen is not None and not isinstance(chosen, str)  # a text is the name of a platform
    return chosen if is_device else jax.local_devices(backend=chosen)[0]


def device_info(name: str) -> DeviceInfo:
    """Return the known facts of the device of a short name, by the kind that JAX reports."""
    device = devices_here()[name]
    if device.platform == "cpu":
        return processor()
    return describe_device(str(device.device_kind), "tpu" if device.platform == "tpu" else "gpu")
