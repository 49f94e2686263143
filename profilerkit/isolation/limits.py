"""Limits of a model in a separate process: seconds, bytes of memory, threads."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..arguments.checks import at_least, positive
from ..error_text import shown
from ..errors import ArgumentError

__all__ = ["Limits", "parse_bytes", "parse_memory", "parse_timeout"]

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(?:([kmgt])(i?)(b?)|(b|bytes?))?\s*", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
#: The system waits no longer at once: its milliseconds have 31 bits.
_LONGEST = 2e6
#: No Python process can run in less.
LEAST_MEMORY = 2**20


@dataclass(frozen=True)
class Limits:
    """The limits of one process and of all processes that it starts: seconds, bytes, and threads in total.

    None means no limit. `Limits.read` converts the values that users give.
    """

    timeout: float | None = None
    memory: int | None = None
    max_threads: int | None = None

    @classmethod
    def read(cls, timeout: Any = None, memory: Any = None, max_threads: Any = None) -> Limits:
        """Return the limits; raises `InputError` for an invalid one. ``max_threads`` defaults to `usual_threads`."""
        return cls(
            None if timeout is None else parse_timeout(timeout),
            None if memory is None else parse_memory(memory),
            usual_threads() if max_threads is None else int(at_least(1)("max_threads", max_threads)),
        )


def usual_threads() -> int:
    """Return a limit that no framework reaches: frameworks start several pools of one thread for each core."""
    return 1024 + 16 * (os.cpu_count() or 1)


def parse_timeout(value: Any) -> float:
    """Return a time limit in seconds, of 23 days at the most; `InputError` unless it is a finite number above zero."""
    return min(float(positive("30", "a number of seconds")("timeout", value)), _LONGEST)


def parse_memory(value: Any) -> int:
    """Return a memory limit in bytes, for a number of bytes or a text such as "4 GiB"; `InputError` for others.

    KiB, MiB, GiB and TiB are powers of 1,024, and so are K, M, G and T; kB, MB, GB and TB are powers of 1,000.

    >>> parse_memory("1.5 GiB"), parse_memory("2 GB"), parse_memory(4096 * 1024)
    (1610612736, 2000000000, 4194304)
    """
    size = parse_bytes(value)
    if size is None:
        raise ArgumentError(
            f"memory={shown(value)}: give a number of bytes, or a text such as '4 GiB', '512 MiB' or '2 GB'"
        )
    if size < LEAST_MEMORY:
        raise ArgumentError(
            f"memory={shown(value)} is {size} bytes; a process needs 1 MiB at the least: did you mean GiB?"
        )
    return size


def parse_bytes(value: Any) -> int | None:
    """Return a number of bytes, or a text such as "4 GiB", in bytes; None for all else."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    match = _SIZE.fullmatch(value) if isinstance(value, str) and len(value) < 100 else None
    if match is None:
        return None
    number, prefix, binary, unit, _ = match.groups()
    factor = 1
    if prefix:
        factor = (1000 if unit and not binary else 1024) ** _POWERS[prefix.lower()]
    return int(float(number) * factor)
