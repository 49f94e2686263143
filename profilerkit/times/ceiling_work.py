"""The work that measures the ceilings of a roofline: one operator that computes, or moves bytes, as fast as it can."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..errors import ArgumentError
from ..process.collector import collector_paused

__all__ = ["KINDS", "CeilingWork", "best_rates"]

#: The kinds of work that are rated by the second: operations, bytes beyond any cache, bytes that stay in a cache.
KINDS = ("flops", "bytes", "cached_bytes")


@dataclass(frozen=True)
class CeilingWork:
    """One operator that is run for a ceiling.

    Attributes:
        kind: The kind of the work, of `KINDS`.
        amount: How many FLOPs it computes, or how many bytes it reads and writes.
        call: Runs it once, and returns when it is done.
    """

    kind: str
    amount: float
    call: Callable[[], object]


def best_rates(
    work: Iterable[CeilingWork], max_seconds: float, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the best rate of each kind, in a second: other programs make a call longer, never shorter.

    Everything is run in turn until the time is over, and at least twice: the first call also prepares. The rate of a
    kind without work is 0. Raises `ArgumentError` if there is no work at all.
    """
    items = list(work)
    if not items:
        raise ArgumentError("work=[]: give at least one operator to run")
    rates = dict.fromkeys(KINDS, 0.0)
    deadline = clock() + max_seconds
    rounds = 0
    with collector_paused():
        while rounds < 2 or clock() < deadline:
            rounds += 1
            for item in items:
                start = clock()
                item.call()
                seconds = clock() - start
                if seconds > 0:
                    rates[item.kind] = max(rates[item.kind], item.amount / seconds)
    return rates
