"""Devices by TensorFlow's names: the device of a model, and the devices of this machine."""

from __future__ import annotations

import re
from typing import Any

import tensorflow as tf

from profilerkit import Device, DeviceNotAvailableError, ModelInputs
from profilerkit.backend import DEVICE, DeviceLike
from profilerkit.devices import describe_device, processor
from profilerkit.devices.info import DeviceInfo

__all__ = ["copy_tensors", "device_info", "find_device", "resolve_device"]

#: "GPU", "gpu:1", "/GPU:1", "/device:GPU:1", and the full name of a device of this process.
_NAME = re.compile(
    r"(?:/job:localhost)?(?:/replica:0)?(?:/task:0)?/?(?:device:)?([a-z][a-z_]*)(?::(\d+))?", re.IGNORECASE
)


def find_device(model: Any) -> str:
    """Return the device of the model's first variable; the CPU if it has none."""
    try:
        variables = [*(getattr(model, "weights", None) or ()), *(getattr(model, "variables", None) or ())]
    except ValueError:  # tf_keras raises it for a model that is not built
        variables = []
    for variable in variables:
        native = variable if isinstance(variable, tf.Variable) else getattr(variable, "value", None)
        named = _NAME.fullmatch(getattr(native, "device", None) or "")
        if named is not None:
            return _shorten(named)
    return "/CPU:0"


def resolve_device(model: Any, device: DeviceLike) -> str:
    """Return TensorFlow's string for a member of `Device`, a string of TensorFlow's, or None (where the model is).

    The string is short: ``"/CPU:0"``, ``"/GPU:1"``. Raises `DeviceNotAvailableError` for a device that does not exist
    here.
    """
    device = DEVICE("device", device)
    if device is None:
        return find_device(model)
    names = [_NAME.fullmatch(logical.name) for logical in tf.config.list_logical_devices()]
    here = [_shorten(name) for name in names if name is not None]
    if device is Device.GPU and not any(name.startswith("/GPU:") for name in here):
        raise DeviceNotAvailableError(
            f"Device.GPU was requested, but tensorflow {tf.__version__} sees no GPU here; use Device.CPU, or a build "
            "of TensorFlow and a driver for the GPU"
        )
    requested = device.value if isinstance(device, Device) else device
    named = _NAME.fullmatch(requested) if isinstance(requested, str) else None
    if named is None:
        raise DeviceNotAvailableError(
            f"TensorFlow knows no device {device!r}; use Device.CPU, Device.GPU or a string such as 'CPU:0', 'GPU:1' "
            "or '/device:GPU:0'"
        )
    if _shorten(named) not in here:
        raise DeviceNotAvailableError(
            f"device {device!r} is not there; tensorflow {tf.__version__} sees here: {', '.join(here)}"
        )
    return _shorten(named)


def _shorten(named: re.Match[str]) -> str:
    return f"/{named[1].upper()}:{int(named[2] or 0)}"


def copy_tensors(inputs: ModelInputs) -> ModelInputs:
    """Return inputs with copies of their tensors, on the device of the block that this is called in."""
    return inputs.map(lambda leaf: tf.identity(leaf) if tf.is_tensor(leaf) else leaf)


def device_info(name: str) -> DeviceInfo:
    """Return the known facts of the device of a short name, by the name that its driver reports."""
    kind, _, index = name.strip("/").partition(":")
    if kind == "CPU":
        return processor()
    visible = tf.config.get_visible_devices(kind)  # which the numbers count
    details = tf.config.experimental.get_device_details(visible[int(index)]) if int(index) < len(visible) else {}
    return describe_device(str(details.get("device_name", name)), kind.lower())
