"""The most that a machine can compute and move in a second: the lines above the dots of a roofline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from profilerkit.arguments.checks import positive
from profilerkit.backend import Backend
from profilerkit.devices.catalog import device as device_named
from profilerkit.devices.info import DeviceInfo
from profilerkit.errors import ArgumentError
from profilerkit.hooks.backends import backend_named
from profilerkit.protocols import MeasuresCeilings, find_capability
from profilerkit.results.report import Report
from profilerkit.times.ceiling_work import CeilingWork, best_rates


@dataclass(frozen=True)
class Ceilings:
    """The largest number of floating-point operations, and of bytes of memory, that a machine can do in a second.

    Give the values of the device and the dtype that the model ran with. They must be above zero; `ArgumentError` is
    raised otherwise. ``cached_bytes_per_second`` is for bytes that stay in a cache, if that is known.

    >>> Ceilings(flops_per_second=60e12, bytes_per_second=3e12).ridge
    20.0
    """

    flops_per_second: float
    bytes_per_second: float
    cached_bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        checks = {"flops_per_second": positive("67e12"), "bytes_per_second": positive("3.35e12")}
        checks["cached_bytes_per_second"] = checks["bytes_per_second"].or_none()
        for name, check in checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))

    def roof(self, intensity: float) -> float:
        """Return the most FLOPs in a second at so many FLOPs for each byte, with the bytes in a cache if that is known.

        >>> Ceilings(60e12, 3e12).roof(10.0), Ceilings(60e12, 3e12, 5e12).roof(10.0)
        (30000000000000.0, 50000000000000.0)
        """
        return min(self.flops_per_second, intensity * (self.cached_bytes_per_second or self.bytes_per_second))

    @property
    def ridge(self) -> float:
        """The FLOPs for each byte at which the two ceilings meet: below it memory is the limit, above it arithmetic."""
        return self.flops_per_second / self.bytes_per_second

    @classmethod
    def of_device(cls, device: DeviceInfo | str, dtype: str = "float32") -> Ceilings:
        """Return the ceilings of a described device for a dtype: its dense peak, and the bandwidth of its memory.

        >>> Ceilings.of_device("h100", "bf16").bytes_per_second
        3350000000000.0

        Raises `DeviceNotKnownError` for an unknown device, and `ArgumentError` if one of the two is not known.
        """
        described = device_named(device)
        peak, bandwidth = described.peak(dtype), described.bandwidth
        if peak is None or bandwidth is None:
            lacks = f"dense peak for {dtype}" if peak is None else "bandwidth"
            raise ArgumentError(f"the {lacks} of {described.name} is not known; give both as numbers: Ceilings(...)")
        return cls(peak, bandwidth)

    @classmethod
    def measure(
        cls,
        report: Report | None = None,
        max_seconds: float = 1.0,
        *,
        backend: Backend | str | None = None,
        num_threads: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> Ceilings:
        """Measure the ceilings of this machine's CPU in float32, by the best that a framework reaches.

        A backend with `profilerkit.protocols.MeasuresCeilings` runs its best products and convolutions, in each layout
        that it has (like channels last and oneDNN's blocked layout), and traffic, in caches and outside them. The
        fastest of each counts. Without such a backend, or without a report, numpy's products and copies are run.

        Measure when nothing else runs: other programs on the machine make the values smaller.

        Args:
            report: The report that the ceilings are for: its backend and its number of threads are used.
            max_seconds: About how many seconds to take for everything.
            backend: The backend, or its name, instead of the report's backend.
            num_threads: The number of threads, instead of the report's; by default as many as the framework uses.
            clock: A function that returns the time in seconds.

        Raises `ArgumentError` for a report of a model that ran on another device than the CPU.
        """
        if report is not None:
            _require_cpu(report)
            backend = backend or report.backend
            threads = report.arguments.get("num_threads", "")
            num_threads = num_threads or (int(threads) if threads.isdecimal() else None)
        with _open_work(backend, num_threads) as work:
            rates = best_rates(work, max_seconds, clock)
        return cls(rates["flops"], rates["bytes"], max(rates["cached_bytes"], rates["bytes"]))


def _require_cpu(report: Report) -> None:
    # Without an argument, a model runs on the device of its weights. Backends write "cpu", "cpu:0" or "/CPU:0".
    device = report.environment.get("device") or report.arguments.get("device", "cpu").strip("'\"")
    if device != "None" and "cpu" not in device.lower():
        raise ArgumentError(
            f"the model of this report ran on {device}, and the ceilings of this machine's CPU are measured; use "
            "Ceilings.of_device(name), or give both as numbers: Ceilings(...)"
        )


def _open_work(backend: Backend | str | None, num_threads: int | None) -> AbstractContextManager[Iterable[CeilingWork]]:
    """Return a context that yields the work of a backend; the work of numpy if the backend has none."""
    chosen = backend_named(backend) if isinstance(backend, str) else backend
    provider = None if chosen is None else find_capability(chosen, MeasuresCeilings)
    if provider is not None:
        return provider.ceiling_work(num_threads)
    return nullcontext(_list_numpy_work())


def _list_numpy_work() -> Iterator[CeilingWork]:
    """Yield products and a copy: large products use every core, and small products are rarely interrupted."""
    import numpy as np

    for side in (512, 1024, 2048):
        left, right = np.ones((side, side), np.float32), np.ones((side, side), np.float32)
        yield CeilingWork("flops", 2 * side**3, partial(np.matmul, left, right, out=np.empty_like(left)))
    for kind, size in (("cached_bytes", 2**20), ("bytes", 2**28)):
        source = np.ones(size, np.uint8)
        yield CeilingWork(kind, 2 * size, partial(np.copyto, np.empty_like(source), source))
