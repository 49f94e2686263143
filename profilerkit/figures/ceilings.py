"""How fast a machine can be at best: the roofs that a roofline is drawn under."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..arguments.checking import checked
from ..times.sampling import Sampling, measure

__all__ = ["Ceilings"]


@dataclass(frozen=True)
class Ceilings:
    """The most floating-point operations and the most bytes of memory that a machine does in a second.

    Give those of the device and dtype that the model ran with: ``Ceilings(flops_per_second=67e12,
    bytes_per_second=3.35e12)``. Raises `ArgumentError` for one that is not above zero.
    """

    flops_per_second: float
    bytes_per_second: float

    def __post_init__(self) -> None:
        for name in ("flops_per_second", "bytes_per_second"):
            object.__setattr__(self, name, checked(name, getattr(self, name)))

    @property
    def ridge(self) -> float:
        """The FLOPs for each byte from which arithmetic, no longer memory, is what holds a program up."""
        return self.flops_per_second / self.bytes_per_second

    @classmethod
    def measured(
        cls,
        max_seconds: float = 1.0,
        *,
        sides: Sequence[int] = (512, 1024, 2048),
        copied_bytes: int = 2**28,
        clock: Callable[[], float] = time.perf_counter,
    ) -> Ceilings:
        """Measure the ceilings of this machine's CPU with numpy: a matrix product in float32, and a copy.

        They are those of all the threads that numpy uses, the best of several runs each, and belong to models that run
        on this CPU in float32. A product of two square matrices is 2 * side ** 3 FLOPs; a copy reads and writes. They
        are no limits of the hardware: a framework may compute faster than numpy does, and what else runs on the machine
        takes its share.

        Args:
            max_seconds: How long to take for the products, and again for the copy, about.
            sides: The lengths of the sides of the matrices, of which the fastest counts: large ones use every core,
                small ones are done before something else runs.
            copied_bytes: The bytes to copy; more than the caches hold.
            clock: What to read the time from, in seconds.
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
