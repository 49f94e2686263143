"""RAPL: the energy counters of Intel's and AMD's CPU packages, which Linux shows below /sys/class/powercap.

A zone ``intel-rapl:0`` is a package, ``intel-rapl:0:1`` a part of it or the memory beside it; ``name`` says which.
https://docs.kernel.org/power/powercap/powercap.html
"""

from __future__ import annotations

from pathlib import Path

from .counters import Counter, Found

__all__ = ["POWERCAP", "rapl_counters"]

POWERCAP = Path("/sys/class/powercap")
#: The counters move about every millisecond (Intel, Software Developer's Manual, volume 3B, RAPL Interfaces).
UPDATE_SECONDS = 0.001


def rapl_counters(powercap: Path = POWERCAP) -> Found:
    """Find the counters of all CPU packages, and of their memory where it has one."""
    counters: list[Counter] = []
    missing: list[str] = []
    for zone in sorted(powercap.glob("intel-rapl:*")):
        energy = zone / "energy_uj"
        try:
            name = (zone / "name").read_text(encoding="ascii").strip()
            if _counts(name):
                counters.append(_counter(f"{name} ({zone.name})", energy, zone / "max_energy_range_uj"))
        except PermissionError:
            missing.append(
                f"{energy} cannot be read (permission denied): run as root, or let an administrator allow it with "
                f"chmod a+r {energy}"
            )
        except (OSError, ValueError) as error:
            missing.append(f"{energy} cannot be read ({error})")
    if not counters and not missing:
        missing.append(
            f"there is no energy counter of a CPU: nothing like {powercap / 'intel-rapl:0' / 'energy_uj'} is here; "
            "Linux has it on Intel's and AMD's CPUs, most virtual machines and containers hide it"
        )
    return Found(tuple(counters), tuple(missing))


def _counts(name: str) -> bool:
    """Say whether a zone's energy is in no other: cores and graphics are inside the package, which is inside psys."""
    return name.startswith("package") or name == "dram"


def _counter(name: str, energy: Path, highest: Path) -> Counter:
    def read() -> int:
        return int(energy.read_text(encoding="ascii"))

    read()  # whether it may be read is known before anything is measured
    return Counter(name, read, 1e-6, UPDATE_SECONDS, int(highest.read_text(encoding="ascii")))
