"""The columns of counts in the tables of a trace, and the columns with the two ends of a count."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from .bounds import Bounds, Sign

__all__ = ["COUNTS", "ENDS", "TRAFFIC", "WORK", "is_exact", "name_ends", "read_bounds", "read_counts"]

#: The columns of work, in the order in which a branch tells it.
WORK = ("macs", "flops")
#: The columns of bytes that an operator moves.
TRAFFIC = ("bytes_read", "bytes_written")
#: The counts in an operator's record.
COUNTS = (*WORK, *TRAFFIC)
#: The suffixes of the columns with the two ends of a count.
ENDS = ("_low", "_high")

#: Reads the counts in an operator's record.
read_counts = attrgetter(*COUNTS)


def name_ends(column: str) -> tuple[str, str]:
    """Return the columns with the two ends of a count, in the tables that have them: "macs_low", "macs_high"."""
    low, high = ENDS
    return f"{column}{low}", f"{column}{high}"


def read_bounds(row: Mapping[str, Any], column: str) -> Bounds:
    """Return the two ends of a column of a layer's row; both are the number itself if the row has no ends.

    >>> read_bounds({"macs": 4, "macs_low": 4, "macs_high": None}, "macs"), read_bounds({"macs": 4}, "macs")
    (Bounds(low=4, high=None), Bounds(low=4, high=4))
    """
    return Bounds(*(row.get(end, row.get(column)) for end in name_ends(column)))


def is_exact(row: Mapping[str, Any], column: str) -> bool:
    """Return whether the number of a column is known, and is both of its ends."""
    value = row.get(column)
    return value is not None and read_bounds(row, column).sign(value) is Sign.EXACT
