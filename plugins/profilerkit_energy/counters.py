"""Energy counters: numbers of the hardware that only go up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: More than any processor package, with its memory, uses: it gives the time until a counter starts again.
MOST_WATTS = 1000


@dataclass(frozen=True)
class Counter:
    """An energy counter of the hardware.

    Args:
        name: The measured part, such as "package-0".
        read: Returns the count.
        joules_per_count: The joules of one count.
        update_seconds: The seconds between two changes of the count.
        highest: The count after which it starts again at zero; None for a counter that never does.
    """

    name: str
    read: Callable[[], int]
    joules_per_count: float
    update_seconds: float
    highest: int | None = None

    def joules(self, before: int, after: int) -> float:
        """Return the energy between two counts; the counter may have started again at zero once in between."""
        counts = after - before
        if counts < 0 and self.highest is not None:
            counts += self.highest
        return counts * self.joules_per_count

    def may_restart_twice(self, seconds: float) -> bool:
        """Return whether it may count more than it can hold in so much time: `joules` is then a lower bound."""
        return self.highest is not None and self.highest * self.joules_per_count < MOST_WATTS * seconds


@dataclass(frozen=True)
class Counters:
    """The counters of a device that can be read, and the reason for each that cannot."""

    readable: tuple[Counter, ...] = ()
    missing: tuple[str, ...] = ()

    def __add__(self, other: Counters) -> Counters:
        return Counters(self.readable + other.readable, self.missing + other.missing)
