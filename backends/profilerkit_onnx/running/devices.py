"""onnxruntime, imported when it is first needed, and the devices that it runs on, by the names of its providers.

Without it models are counted anyway.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

from profilerkit import Device, DeviceNotAvailableError, NotOfferedError
from profilerkit.backend import DEVICE, DeviceLike

__all__ = ["choose_providers", "is_installed", "onnxruntime", "providers_here", "resolve_device"]


def is_installed() -> bool:
    """Return whether onnxruntime is there, without importing it."""
    try:
        return find_spec("onnxruntime") is not None
    except ValueError:  # None in its place in ``sys.modules`` forbids the import
        return False


def onnxruntime() -> Any:
    """Return the module; raises `NotOfferedError` if it is not installed."""
    try:
        import onnxruntime as module
    except ImportError as error:
        raise NotOfferedError(
            f"the onnx backend runs models by onnxruntime, which cannot be imported ({error}); pip install onnxruntime"
        ) from error
    return module


_SUFFIX = "ExecutionProvider"
_SHORT = {None: "cpu", Device.CPU: "cpu", Device.GPU: "cuda"}
#: A provider's short name, and the number of the device: "cuda:1".
_NAME = re.compile(r"([a-z][a-z0-9_]*)(?::(\d+))?", re.IGNORECASE)
#: Providers that run models on another machine.
_REMOTE = ("azure",)


def providers_here() -> dict[str, str]:
    """Return the providers of the installed onnxruntime by their short names: "cpu", "cuda", "coreml"."""
    try:
        names = onnxruntime().get_available_providers()
    except NotOfferedError:  # it counts anyway
        return {"cpu": f"CPU{_SUFFIX}"}
    providers = {}
    for name in names:
        short = name.removesuffix(_SUFFIX).lower()
        if short not in _REMOTE:
            providers[short] = name
    return providers


def resolve_device(device: DeviceLike) -> str:
    """Return the short name of a provider, with the number of the device if one is given; "cpu" for None.

    A provider's full name, "CUDAExecutionProvider", is accepted too. Raises `DeviceNotAvailableError` for a device that
    the installed onnxruntime lacks.
    """
    device = DEVICE("device", device)
    here = providers_here()
    if device is Device.GPU and "cuda" not in here:
        raise DeviceNotAvailableError(
            f"Device.GPU was requested, but the installed onnxruntime runs on {', '.join(here)} alone; use Device.CPU, "
            "or install onnxruntime-gpu and a driver for the GPU"
        )
    requested = _SHORT[device] if device is None or isinstance(device, Device) else str(device)
    match = _NAME.fullmatch(requested.removesuffix(_SUFFIX))
    provider = "" if match is None else match[1].lower()
    if match is None or provider not in here:
        raise DeviceNotAvailableError(
            f"device {device!r} is not there; the installed onnxruntime runs on: {', '.join(here)}"
        )
    if match[2] is None or provider == "cpu":
        return provider
    return f"{provider}:{int(match[2])}"


def choose_providers(device: str) -> list[Any]:
    """Return the providers of a session: the provider of the device, then the CPU for operators that it lacks."""
    short, _, index = device.partition(":")
    here = providers_here()
    if short == "cpu":
        return [here["cpu"]]
    first = (here[short], {"device_id": index}) if index else here[short]
    return [first, here["cpu"]]
