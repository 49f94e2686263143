"""The machine during a measurement: the other programs that ran, and the processor time that the process lost.

It is read once before a measurement and once after it, which costs some microseconds.
"""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, NamedTuple

import msgspec

resource: Any = None  # Windows has none
with suppress(ImportError):
    import resource

__all__ = ["Conditions", "MachineWatch", "process_name"]

#: A machine is busy if its load is beyond so many times its cores.
MOST_LOAD_OF_A_CORE = 1.25
#: A process is disturbed if other processes interrupt it this often in a second of its own processor time ...
MOST_SWITCHES_PER_SECOND = 20.0
#: ... and so often altogether: a short measurement may be interrupted once by chance.
FEWEST_SWITCHES = 5
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True)
class Conditions:
    """The machine and the process during a measurement, warm-up included; None for a value that cannot be read.

    Args:
        wall_seconds: Seconds of the measurement.
        cpu_seconds: Processor time of all threads of the process meanwhile.
        involuntary_switches: How often another thread took the processor from one of the process.
        load_before: Load average of the machine over the minute before it: threads that ran or wanted to.
        load_after: The same at its end; the process itself is part of it.
        cores: The cores of the machine.
        threads: The threads of the process at its end.
        governor: The policy for the frequency of the first core: "performance", "powersave" and so on.
        process: A name of the process that measured, which no other process has.
    """

    wall_seconds: float
    cpu_seconds: float
    involuntary_switches: int | None = None
    load_before: float | None = None
    load_after: float | None = None
    cores: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    threads: int | None = None
    governor: str | None = None
    process: str = ""

    @property
    def busy(self) -> str:
        """The signs of other work on the machine as a text; empty if there is none."""
        signs = []
        if self.load_before is not None and self.cores and self.load_before > MOST_LOAD_OF_A_CORE * self.cores:
            signs.append(f"a load of {self.load_before:.1f} on {self.cores} cores")
        switches = self.involuntary_switches or 0
        if switches >= FEWEST_SWITCHES and switches > MOST_SWITCHES_PER_SECOND * self.cpu_seconds:
            signs.append(f"interrupted {switches} times in {_write_seconds(self.wall_seconds)}")
        return f"busy machine: {'; '.join(signs)}" if signs else ""


def _write_seconds(seconds: float) -> str:
    """Return seconds with two digits, or with all that are before the point."""
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


class _Counters(NamedTuple):
    """Counters that only grow while a process runs, or the growth of these counters."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    involuntary_switches: int = 0


class MachineWatch:
    """Adds up the counters of the process over all ``with`` blocks of this object.

    >>> with MachineWatch() as watch:
    ...     pass
    >>> watch.conditions().wall_seconds >= 0
    True
    """

    def __init__(self) -> None:
        self._load_before = _read_load()
        self._total = self._start = _Counters()

    def __enter__(self) -> MachineWatch:
        self._start = _read_counters()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now, start, total = _read_counters(), self._start, self._total
        self._total = _Counters(
            total.wall_seconds + now.wall_seconds - start.wall_seconds,
            total.cpu_seconds + now.cpu_seconds - start.cpu_seconds,
            total.involuntary_switches + now.involuntary_switches - start.involuntary_switches,
        )

    def conditions(self) -> Conditions:
        """Return the sums, and the state of the machine before and now."""
        return Conditions(
            wall_seconds=self._total.wall_seconds,
            cpu_seconds=self._total.cpu_seconds,
            involuntary_switches=None if resource is None else self._total.involuntary_switches,
            load_before=self._load_before,
            load_after=_read_load(),
            cores=os.cpu_count(),
            threads=_count_threads(),
            governor=_read_governor(),
            process=process_name(),
        )


def process_name() -> str:
    """Return a name of this process that no other one has, on any machine."""
    return _name_process(os.getpid())  # a forked process keeps the caches of its parent


@cache
def _name_process(process: int) -> str:
    """Return the random name of a process, drawn once for each number."""
    return uuid.uuid4().hex


def _read_counters() -> _Counters:
    switches = 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    return _Counters(time.perf_counter(), time.process_time(), switches)


def _read_load() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows; a container that hides it
        return None


def _count_threads() -> int | None:
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:  # no Linux
        return None


def _read_governor() -> str | None:
    try:
        return _GOVERNOR.read_text(encoding="utf-8").strip() or None
    except OSError:  # a virtual machine, or no Linux
        return None
