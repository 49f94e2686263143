"""Devices by TensorFlow's names: the device of a model, and the devices of this machine."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from profilerkit import Device, DeviceNotAvailableError
from profilerkit.backend import DEVICE, DeviceLike
from profilerkit.devices import describe_device, processor
from profilerkit.devices.info import DeviceInfo

__all__ = ["device_info", "find_device", "has_accelerator", "resolve_device", "use_device"]


def find_device(model: Any) -> str:
    """Return the device of the model's first variable; the CPU if it has none."""
    try:
        variables = [*(getattr(model, "weights", None) or ()), *(getattr(model, "variables", None) or ())]
    except ValueError:  # tf_keras raises it for a model that is not built
        variables = []
    for variable in variables:
        native = variable if isinstance(variable, tf.Variable) else getattr(variable, "value", None)
        device = getattr(native, "device", None)
        if device:
            return _shorten(device)
    return "/CPU:0"


def resolve_device(model: Any, device: DeviceLike) -> str:
    """Return TensorFlow's short name, "/GPU:1", for a `Device`, a name of TensorFlow's, or None (where the model is).

    Raises `DeviceNotAvailableError` for a device that does not exist here.
    """
    device = DEVICE("device", device)
    if device is None:
        return find_device(model)
    here = [_shorten(logical.name) for logical in tf.config.list_logical_devices()]
    if device is Device.GPU and not any(name.startswith("/GPU:") for name in here):
        raise DeviceNotAvailableError(
            f"Device.GPU was requested, but tensorflow {tf.__version__} sees no GPU here; use Device.CPU, or a build "
            "of TensorFlow and a driver for the GPU"
        )
    name = _shorten(device.value if isinstance(device, Device) else str(device))
    if name not in here:
        raise DeviceNotAvailableError(
            f"device {device!r} is not there; tensorflow {tf.__version__} sees here: {', '.join(here)}"
        )
    return name


def _shorten(name: str) -> str:
    """Return "/GPU:1" for any of TensorFlow's names of that device of this process; another text as it is."""
    try:
        spec = tf.DeviceSpec.from_string(f"/{name.removeprefix('/')}")
    except ValueError:
        return name
    is_here = spec.device_type is not None and spec.job in (None, "localhost")
    return f"/{spec.device_type}:{spec.device_index or 0}" if is_here else name


def use_device(device: DeviceLike) -> AbstractContextManager[object]:
    """Return a context in which operators run on a requested device.

    Without one their placement stays as it is: the caller's ``tf.device``, or TensorFlow's own choice.
    """
    return nullcontext() if device is None else tf.device(resolve_device(None, device))


def has_accelerator() -> bool:
    """Return whether TensorFlow sees a device that may still work when a call has returned, whatever a model runs on.

    Such is a GPU; the variables of a model, if it has any, do not tell where its operators run.
    """
    return any(device.device_type != "CPU" for device in tf.config.list_logical_devices())


def device_info(name: str) -> DeviceInfo:
    """Return the known facts of the device of a short name, by the name that its driver reports."""
    kind, _, index = name.strip("/").partition(":")
    if kind == "CPU":
        return processor()
    visible = tf.config.get_visible_devices(kind)  # which the numbers count
    details = tf.config.experimental.get_device_details(visible[int(index)]) if int(index) < len(visible) else {}
    return describe_device(str(details.get("device_name", name)), kind.lower())
