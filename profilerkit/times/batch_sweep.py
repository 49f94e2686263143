"""Times over several batch sizes, and the size from which more samples at once bring little more: the knee."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..trace.table import data_frame

__all__ = ["COLUMNS", "SHARE_AT_KNEE", "BatchSweep"]

#: The columns of a sweep's rows.
COLUMNS = ("batch_size", "execution_time", "throughput", "memory_footprint", "is_knee")
#: How much of the best throughput is reached at the knee.
SHARE_AT_KNEE = 0.9


class BatchSweep(tuple[Mapping[str, Any], ...]):
    """One row for each batch size, smallest first.

    Columns: ``batch_size``, ``execution_time`` (a `Measurement`, seconds), ``throughput`` (samples per second, from its
    median), ``memory_footprint`` (peak bytes, None if not known), ``is_knee``.
    """

    __slots__ = ()

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> BatchSweep:
        """Return the sweep of rows that do not say yet which of them is the knee."""
        ordered = sorted(rows, key=lambda row: row["batch_size"])
        knee = _find_knee({row["batch_size"]: row["throughput"] for row in ordered})
        return cls({**row, "is_knee": row["batch_size"] == knee} for row in ordered)

    @property
    def knee(self) -> int | None:
        """The smallest batch size with at least 90 % of the best throughput; None if only the largest has it.

        In that case the throughput may grow beyond the sizes that were tried.
        """
        return next((row["batch_size"] for row in self if row["is_knee"]), None)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas ``DataFrame``, times as medians and intervals; needs the ``pandas`` extra."""
        return data_frame(map(_flatten, self))


def _find_knee(throughputs: Mapping[int, float]) -> int | None:
    if len(throughputs) < 2:
        return None
    enough = SHARE_AT_KNEE * max(throughputs.values())
    smallest = min(size for size, throughput in throughputs.items() if throughput >= enough)
    return None if smallest == max(throughputs) else smallest


def _flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    time = row["execution_time"]
    low, high = time.interval
    ends = {"execution_time_low": low, "execution_time_high": high, "execution_time_interval": time.interval_name}
    return {**row, "execution_time": time.median, **ends}
