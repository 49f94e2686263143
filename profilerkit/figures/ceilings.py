"""The most that a machine can compute and move in a second: the lines above the dots of a roofline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..arguments.checking import checked
from ..devices.catalog import device as device_named
from ..devices.info import DeviceInfo
from ..errors import ArgumentError
from ..times.sampling import Sampling, measure

__all__ = ["Ceilings"]


@dataclass(frozen=True)
class Ceilings:
    """The largest number of floating-point operations, and of bytes of memory, that a machine can do in a second.

    Give the values of the device and the dtype that the model ran with. Both must be above zero; `ArgumentError` is
    raised otherwise.

    >>> Ceilings(flops_per_second=60e12, bytes_per_second=3e12).ridge
    20.0
    """

    flops_per_second: float
    bytes_per_second: float

    def __post_init__(self) -> None:
        for name in ("flops_per_second", "bytes_per_second"):
            object.__setattr__(self, name, checked(name, getattr(self, name)))

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
    def measured(
        cls,
        max_seconds: float = 1.0,
        *,
        sides: Sequence[int] = (512, 1024, 2048),
        copied_bytes: int = 2**28,
        clock: Callable[[], float] = time.perf_counter,
    ) -> Ceilings:
        """Measure the ceilings of this machine's CPU with numpy: a matrix product in float32, and a copy of memory.

        The values are for all threads that numpy uses, each the best of several runs, and apply to models that run on
        this CPU in float32. A product of two square matrices counts 2 * side ** 3 FLOPs; a copy counts the bytes that
        it reads and those that it writes. The hardware may be faster: a framework may compute faster than numpy, and
        other programs on the machine make the values smaller.

        Args:
            max_seconds: About how many seconds to take for the products, and again for the copy.
            sides: The numbers of rows of the square matrices; the fastest product counts. Large matrices use every
                core, small ones finish before other programs interrupt them.
            copied_bytes: The bytes to copy; more than the caches hold.
            clock: A function that returns the time in seconds.
        """
        import numpy as np

        def flops_per_second(side: int) -> float:
            left, right = np.ones((side, side), np.float32), np.ones((side, side), np.float32)
            product = np.empty_like(left)
            sampling = Sampling(max_seconds=max_seconds / len(sides), clock=clock)
            return 2 * side**3 / measure(lambda: np.matmul(left, right, out=product), sampling).min

        source = np.ones(copied_bytes, np.uint8)
        target = np.empty_like(source)
        copy = measure(lambda: np.copyto(target, source), Sampling(max_seconds=max_seconds, clock=clock))
        return cls(max(map(flops_per_second, sides)), 2 * copied_bytes / copy.min)
