"""NVML: the energy counters of NVIDIA's GPUs (Volta and later), read through the package nvidia-ml-py.

https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html, nvmlDeviceGetTotalEnergyConsumption
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from .counters import Counter, Counters

#: The counter changes every 20 to 100 ms, which depends on the GPU (Yang, Adamek and Armour, Part-time Power
#: Measurements: nvidia-smi's Lack of Attention, 2023). NVIDIA gives no number.
UPDATE_SECONDS = 0.1


def find_nvml_counters(index: int, nvml: Any = None) -> Counters:
    """Return the counter of the GPU that the framework calls ``index``.

    ``nvml`` is the module to read it through; None for the module of nvidia-ml-py.
    """
    name = f"GPU {index}"
    try:
        nvml = import_module("pynvml") if nvml is None else nvml
    except ImportError:
        return Counters(
            missing=(f"the energy counter of {name} needs a package; install it with: pip install nvidia-ml-py",)
        )
    try:
        nvml.nvmlInit()
        handle = _find_handle(nvml, index)

        def read() -> int:
            return int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle))

        read()  # an error belongs here, before anything is measured
    except (nvml.NVMLError, LookupError) as error:
        return Counters(missing=(f"the energy counter of {name} cannot be read ({error})",))
    return Counters((Counter(name, read, joules_per_count=1e-3, update_seconds=UPDATE_SECONDS),))


def _find_handle(nvml: Any, index: int) -> Any:
    """Return NVML's handle of a GPU.

    NVML knows all GPUs, the framework only the GPUs that CUDA_VISIBLE_DEVICES names, in this order. Raises
    `LookupError` for a GPU that cannot be distinguished from the others.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(index)] if visible is None else [name.strip() for name in visible.split(",")]
    position = 0 if visible is None else index
    if position >= len(names):
        raise LookupError(f"CUDA_VISIBLE_DEVICES={visible!r} names no GPU {index}")
    if not names[position].isdigit():
        return nvml.nvmlDeviceGetHandleByUUID(names[position])
    _require_one_order(nvml)
    return nvml.nvmlDeviceGetHandleByIndex(int(names[position]))


def _require_one_order(nvml: Any) -> None:
    """Raise `LookupError` if CUDA may number the GPUs otherwise than NVML: the fastest first, and not by slot."""
    if os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return
    kinds = {
        nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(number)) for number in range(nvml.nvmlDeviceGetCount())
    }
    if len(kinds) > 1:
        raise LookupError(
            "this machine has GPUs of several kinds, whose numbers differ between CUDA and NVML; set "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID before the framework is imported"
        )
