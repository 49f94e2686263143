"""RAPL: the energy counters of Intel's and AMD's processors, which Linux shows as files below /sys/class/powercap.

A zone ``intel-rapl:0`` is a processor package, ``intel-rapl:0:1`` a part of it or the memory beside it; the file
``name`` of a zone has its kind. https://docs.kernel.org/power/powercap/powercap.html
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .counters import Counter, Counters

POWERCAP = Path("/sys/class/powercap")
#: The counters change about every millisecond (Intel, Software Developer's Manual, volume 3B, RAPL Interfaces).
UPDATE_SECONDS = 0.001


def find_rapl_counters(powercap: Path = POWERCAP) -> Counters:
    """Return the counters of all processor packages, and of the memory if it has separate counters.

    ``intel-rapl-mmio:0``, which some machines also have, is the same counter as ``intel-rapl:0`` and is left out.
    """
    counters: list[Counter] = []
    missing: list[str] = []
    left_out: list[str] = []
    for zone in sorted(powercap.glob("intel-rapl:*")):
        energy = zone / "energy_uj"
        try:
            name = (zone / "name").read_text(encoding="ascii").strip()
            if not _is_counted(name):
                left_out.append(f"{name} ({zone.name})")
            else:
                counters.append(_make_counter(f"{name} ({zone.name})", energy, zone / "max_energy_range_uj"))
        except PermissionError as error:
            missing.append(
                f"{error.filename} cannot be read (permission denied): run as root, or let an administrator allow it "
                f"with chmod a+r {error.filename}"
            )
        except (OSError, ValueError) as error:
            missing.append(f"{energy} cannot be read ({error})")
    if not counters and not missing:
        missing.append(_explain_absence(powercap, left_out))
    return Counters(tuple(counters), tuple(missing))


def _explain_absence(powercap: Path, left_out: Sequence[str]) -> str:
    if left_out:
        return f"there is no energy counter of a processor: {powercap} has counters of {', '.join(left_out)} alone"
    return (
        f"there is no energy counter of a processor: {powercap / 'intel-rapl:0' / 'energy_uj'} does not exist. Linux "
        "has it on Intel's and AMD's processors, but most virtual machines and containers hide it: measure on the "
        "machine itself, or let the container read /sys/class/powercap"
    )


def _is_counted(zone_name: str) -> bool:
    """Return whether no other zone contains the energy of this one.

    Cores and graphics are part of the package, and psys is the whole machine with its packages.
    """
    return zone_name.startswith("package") or zone_name == "dram"


def _make_counter(name: str, energy: Path, highest: Path) -> Counter:
    def read() -> int:
        return int(energy.read_text(encoding="ascii"))

    read()  # an error belongs here, before anything is measured
    return Counter(
        name,
        read,
        joules_per_count=1e-6,
        update_seconds=UPDATE_SECONDS,
        highest=int(highest.read_text(encoding="ascii")),
    )
