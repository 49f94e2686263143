"""The seconds of kernels summed up over the passes of a profile."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .records import RecordedKernel

__all__ = ["KernelTimes", "compute_layer_share", "measure_extent", "sum_covered"]


class _Kernel(NamedTuple):
    """Which kernel ran where: the runs of equal ones are summed up. As `RecordedKernel` has it."""

    name: str
    layer: str | None
    phase: str
    around: str


class KernelTimes:
    """Adds up the seconds and the calls of kernels."""

    def __init__(self) -> None:
        self._seconds: defaultdict[_Kernel, float] = defaultdict(float)
        self._calls: Counter[_Kernel] = Counter()

    def add(self, seconds: float, name: str, layer: str | None, phase: str = "forward", around: str = "") -> None:
        """Add one run of a kernel; `RecordedKernel` says what describes it."""
        kernel = _Kernel(name, layer, phase, around)
        self._seconds[kernel] += seconds
        self._calls[kernel] += 1

    def average(self, passes: int) -> tuple[RecordedKernel, ...]:
        """Return the kernels with their seconds and calls in one of so many passes."""
        return tuple(
            RecordedKernel(
                kernel.name, kernel.layer, seconds / passes, self._calls[kernel] / passes, kernel.phase, kernel.around
            )
            for kernel, seconds in self._seconds.items()
        )


def compute_layer_share(kernels: Sequence[RecordedKernel]) -> float:
    """Return the share of the time of kernels that those have whose layer is known."""
    in_layers = sum(kernel.seconds for kernel in kernels if kernel.layer is not None)
    return in_layers / (sum(kernel.seconds for kernel in kernels) or 1.0)


def measure_extent(spans: Sequence[tuple[float, float]]) -> float:
    """Return the seconds from the first begin to the last end; 0 without spans."""
    return max(end for _, end in spans) - min(start for start, _ in spans) if spans else 0.0


def sum_covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds in which at least one of the spans runs."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total
