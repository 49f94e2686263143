"""NVML: the energy counters of NVIDIA's GPUs (Volta and later), read through the package nvidia-ml-py.

https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html, nvmlDeviceGetTotalEnergyConsumption
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from .counters import Counter, Found

__all__ = ["nvml_counters"]

#: The counter moves every 20 to 100 ms, as the GPU's generation has it (Yang, Adamek and Armour, Part-time Power
#: Measurements: nvidia-smi's Lack of Attention, 2023). NVIDIA gives no number.
UPDATE_SECONDS = 0.1


def nvml_counters(index: int, nvml: Any = None) -> Found:
    """Find the counter of the GPU that the framework calls ``index``; ``nvml`` is the module to read it through."""
    if nvml is None:
        try:
            nvml = import_module("pynvml")
        except ImportError:
            return Found(
                missing=(
                    f"the counter of GPU {index} is read through a package that is not installed; install it with: "
                    "pip install nvidia-ml-py",
                )
            )
    try:
        nvml.nvmlInit()
        handle = _handle(nvml, index)
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except (nvml.NVMLError, LookupError) as error:
        return Found(missing=(f"the counter of GPU {index} cannot be read ({error})",))

    def read() -> int:
        return int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle))

    return Found((Counter(f"GPU {index}", read, 1e-3, UPDATE_SECONDS),))


def _handle(nvml: Any, index: int) -> Any:
    """Return NVML's handle: it knows all GPUs, the framework those that CUDA_VISIBLE_DEVICES names, in that order."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    named = [name.strip() for name in visible.split(",")]
    if index >= len(named):
        raise LookupError(f"CUDA_VISIBLE_DEVICES={visible!r} names no GPU {index}")
    if named[index].isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(named[index]))
    return nvml.nvmlDeviceGetHandleByUUID(named[index])
