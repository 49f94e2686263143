"""The energy counters of a device, by its name in any framework."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .apple import find_apple_counters
from .counters import Counters
from .nvml import find_nvml_counters
from .rapl import POWERCAP, find_rapl_counters

#: The names of NVIDIA GPUs in frameworks: "cuda:1", "/GPU:0". OpenVINO's "gpu" and "gpu.0" are Intel's.
_NVIDIA = re.compile(r"cuda(?::(?P<cuda>\d+))?|/?gpu:(?P<gpu>\d+)", re.IGNORECASE)
_CPU = re.compile(r"/?cpu(?::\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class DeviceCounters:
    """The energy counters of a device, and of the parts that work for it: the processor that feeds a GPU.

    Without the device's own counters there is no value; without the other counters the value is a lower bound.
    """

    main: Counters
    others: Counters = field(default_factory=Counters)


@dataclass(frozen=True)
class Hardware:
    """The sources of the energy counters of this machine; by default the sources of the machine itself.

    Args:
        powercap: The folder in which Linux shows the counters of processors.
        nvml: The module to read NVIDIA's GPUs through; None for the module of nvidia-ml-py.
        apple: An ``AppleEnergyMonitor``; None for a new monitor of zeus-apple-silicon.
        system: The operating system, by its name in `platform.system`.
    """

    powercap: Path = POWERCAP
    nvml: Any = None
    apple: Any = None
    system: str = platform.system()

    def find_counters(self, device: str) -> DeviceCounters:
        """Return the counters of a device, by the name that a backend gives it."""
        if self.system == "Darwin" and (device == "mps" or _CPU.fullmatch(device)):
            return DeviceCounters(find_apple_counters(self.apple))
        if _CPU.fullmatch(device):
            return DeviceCounters(find_rapl_counters(self.powercap))
        nvidia = _NVIDIA.fullmatch(device)
        if nvidia:
            index = int(nvidia["cuda"] or nvidia["gpu"] or 0)
            return DeviceCounters(find_nvml_counters(index, self.nvml), find_rapl_counters(self.powercap))
        unknown = (
            f"no energy counter is known for the device {device!r}; measure on a CPU, an NVIDIA GPU or Apple silicon"
        )
        return DeviceCounters(Counters(missing=(unknown,)))
