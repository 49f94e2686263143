"""The machine while something was measured: who else ran, and what that took from the process.

The readings are taken once before a measurement and once after it, and cost some microseconds.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Conditions", "Watch", "process_name"]

#: A machine is busy if its load is beyond so many times its cores.
MOST_LOAD_OF_A_CORE = 1.25
#: A process is disturbed if another one takes the processor from it so often in a second of its own processor time ...
MOST_SWITCHES_PER_SECOND = 20.0
#: ... and so often altogether: a short measurement may be interrupted once by chance.
FEWEST_SWITCHES = 5
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True)
class Conditions:
    """What the machine and the process did during a measurement, warm-up included; None for what cannot be read.

    Args:
        wall_seconds: How long it took.
        cpu_seconds: Processor time of all threads of the process meanwhile.
        involuntary_switches: How often another thread took the processor from one of the process.
        load_before: Load average of the machine over the minute before it: threads that ran or wanted to.
        load_after: The same at its end; the process itself is part of it.
        cores: The cores of the machine.
        threads: The threads of the process at its end.
        governor: What chooses the frequency of the first core: "performance", "powersave" and so on.
        process: A name of the process that measured, which no other process has.
    """

    wall_seconds: float
    cpu_seconds: float
    involuntary_switches: int | None = None
    load_before: float | None = None
    load_after: float | None = None
    cores: int | None = None
    threads: int | None = None
    governor: str | None = None
    process: str = ""

    @property
    def busy(self) -> str:
        """Say by what signs the machine had other things to do; empty where there is none."""
        signs = []
        if self.load_before is not None and self.cores and self.load_before > MOST_LOAD_OF_A_CORE * self.cores:
            signs.append(f"a load of {self.load_before:.1f} on {self.cores} cores")
        switches = self.involuntary_switches or 0
        if switches >= FEWEST_SWITCHES and switches > MOST_SWITCHES_PER_SECOND * self.cpu_seconds:
            share = (
                "" if not self.wall_seconds else f", on a core for {self.cpu_seconds / self.wall_seconds:.0%} of them"
            )
            signs.append(f"interrupted {switches} times in {self.wall_seconds:.2g} s{share}")
        return f"busy machine: {'; '.join(signs)}" if signs else ""


class Watch:
    """Adds up what happens while it is entered, as often as that is.

    >>> with Watch() as watch:
    ...     pass
    >>> watch.conditions().wall_seconds >= 0
    True
    """

    def __init__(self) -> None:
        self._load_before = _load()
        self._sums = [0.0, 0.0, 0.0]
        self._start = (0.0, 0.0, 0)

    def __enter__(self) -> Watch:
        self._start = _readings()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sums = [total + now - then for total, now, then in zip(self._sums, _readings(), self._start, strict=True)]

    def conditions(self) -> Conditions:
        """Return what was added up, and the state of the machine before and now."""
        wall, processor, switches = self._sums
        return Conditions(
            wall_seconds=wall,
            cpu_seconds=processor,
            involuntary_switches=None if _resource() is None else int(switches),
            load_before=self._load_before,
            load_after=_load(),
            cores=os.cpu_count(),
            threads=_threads(),
            governor=_governor(),
            process=process_name(),
        )


def process_name() -> str:
    """Return a name of this process that no other one has, on any machine."""
    return _name_process(os.getpid())  # a forked process keeps what its parent remembers


@cache
def _name_process(process: int) -> str:
    return uuid.uuid4().hex


@cache
def _resource() -> Any:
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource


def _readings() -> tuple[float, float, int]:
    resource = _resource()
    switches = 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    return time.perf_counter(), time.process_time(), switches


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows; a container that hides it
        return None


def _threads() -> int | None:
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:  # no Linux
        return None


def _governor() -> str | None:
    try:
        return _GOVERNOR.read_text(encoding="utf-8").strip() or None
    except OSError:  # a virtual machine, or no Linux
        return None
