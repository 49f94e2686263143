"""Devices as data: their peak speeds, memory and bandwidths, and the address that each figure was read from."""

from __future__ import annotations

from .catalog import FOLDERS, DeviceInfoLike, describe_device, device, device_names, devices, processor
from .info import DTYPES, DeviceInfo, Figure, dtype_name
from .products import UnknownPeakError, macs_by_dtype, seconds_at_peak
from .reading import devices_in, read_device

__all__ = [
    "DTYPES",
    "FOLDERS",
    "DeviceInfo",
    "DeviceInfoLike",
    "Figure",
    "UnknownPeakError",
    "describe_device",
    "device",
    "device_names",
    "devices",
    "devices_in",
    "dtype_name",
    "macs_by_dtype",
    "processor",
    "read_device",
    "seconds_at_peak",
]
