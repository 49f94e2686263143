"""Apple silicon: the energy counters that ``powermetrics`` shows, read through Zeus' package zeus-apple-silicon.

It needs no sudo, unlike ``powermetrics`` itself. https://github.com/ml-energy/zeus-apple-silicon
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .counters import Counter, Counters

#: Apple documents no interval; the interval of NVIDIA's slowest counters is assumed.
UPDATE_SECONDS = 0.1
#: The parts of the chip that do not contain each other, by the names that Zeus gives their millijoules.
PARTS = {"cpu_total_mj": "CPU", "gpu_mj": "GPU", "dram_mj": "memory", "ane_mj": "neural engine"}


def find_apple_counters(monitor: Any = None) -> Counters:
    """Return a counter of the whole chip, whose parts work for models on the CPU and on the GPU.

    ``monitor`` is an ``AppleEnergyMonitor``; None for a new one of zeus-apple-silicon.
    """
    try:
        monitor = import_module("zeus_apple_silicon").AppleEnergyMonitor() if monitor is None else monitor
        probe = monitor.get_cumulative_energy()
    except ImportError:
        return Counters(
            missing=(
                "the energy counters of Apple silicon need a package; install it with: pip install zeus-apple-silicon",
            )
        )
    except RuntimeError as error:
        return Counters(missing=(f"the energy counters of Apple silicon cannot be read ({error})",))
    readable = [field for field in PARTS if getattr(probe, field, None) is not None]
    missing = [
        f"this chip does not tell the energy of its {part}" for field, part in PARTS.items() if field not in readable
    ]

    def read() -> int:
        energy = monitor.get_cumulative_energy()
        return sum(int(getattr(energy, field)) for field in readable)

    # One counter for all parts: a part that a model does not use, such as the neural engine, may not change.
    name = ", ".join(PARTS[field] for field in readable)
    counters = (Counter(name, read, joules_per_count=1e-3, update_seconds=UPDATE_SECONDS),) if readable else ()
    return Counters(counters, tuple(missing))
