"""The first step of ``make gpu``: importing, ``doctor``, and what is known of the device."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpu_checks import check_result
from gpu_results import Result, Skipped

if TYPE_CHECKING:
    from gpu import Where

STEP = "start"


def measure(where: Where, part: int, parts: int) -> Iterator[Result | Skipped | dict[str, str]]:
    """Yield facts of the machine, and whether profilerkit knows them."""
    import torch

    from profilerkit_torch import TorchBackend

    backend = TorchBackend()
    environment = backend.environment()
    name = environment.get("accelerators", "a CPU")
    yield {"device": name, **environment}
    # The command leaves out TensorFlow's log lines where nobody has set a level; JAX sets one where it is imported.
    plain = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    doctor = subprocess.run(
        [sys.executable, "-m", "profilerkit", "doctor"], capture_output=True, text=True, check=False, env=plain
    )
    print(doctor.stdout, doctor.stderr)
    yield check_result(STEP, "doctor ends with 0", doctor.returncode == 0, doctor.stderr[-300:])
    yield check_result(STEP, "doctor names torch", torch.__version__ in doctor.stdout)
    yield check_result(STEP, "doctor ends without a warning", not doctor.stderr, doctor.stderr)
    if where.is_small:
        yield Skipped(STEP, "facts of the GPU", "there is none")
        return
    yield from _of_gpu(backend, name, doctor.stdout, environment)


def _of_gpu(backend: Any, name: str, doctor: str, environment: Mapping[str, str]) -> Iterator[Result | dict[str, str]]:
    import torch

    from profilerkit import Device
    from profilerkit.devices import device

    yield {"nvidia-smi": _driver()}
    yield check_result(STEP, "doctor names the GPU", name in doctor, name)
    properties = torch.cuda.get_device_properties(0)
    memory = float(environment["accelerator_memory_bytes"])
    yield Result(STEP, "memory of the device", "bytes", memory, properties.total_memory, "torch", "bytes", 0.0)
    info, by_name = backend.device_info("cuda"), device(name)
    yield check_result(
        STEP, "the driver's name is that of a device of the catalog", info.name == by_name.name, info.name
    )
    yield check_result(STEP, "it has a peak in bfloat16", bool(info.peak("bf16")), info.peak("bf16"))
    yield check_result(STEP, "Device.GPU is the GPU", backend.device_info(Device.GPU).name == info.name)
    free, total = torch.cuda.mem_get_info()
    listed = by_name.memory or 0.0
    yield Result(
        STEP, name, "memory by the data sheet", listed, float(total), "the driver", "bytes", None, f"{free} free"
    )


def _driver() -> str:
    fields = "name,driver_version,clocks.max.sm,clocks.max.mem,clocks.sm,clocks.mem,power.limit,temperature.gpu"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return f"{fields}: {asked.stdout.strip() or asked.stderr.strip()}"
