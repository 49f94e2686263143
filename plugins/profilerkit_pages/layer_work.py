"""The own work of each layer in a forward pass, for rooflines: its FLOPs, the bytes that it moves, and its time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from profilerkit.results.report import Report
from profilerkit.trace import layer_view
from profilerkit.trace.columns import TRAFFIC
from profilerkit.trace.records import LayerTable
from profilerkit.trace.rows import read_work


class LayerWork(NamedTuple):
    """The FLOPs of a layer's own operators, and the bytes that they read and write."""

    flops: int
    moved_bytes: int


def sum_forward_work(operators: Iterable[Mapping[str, Any]]) -> dict[str, LayerWork]:
    """Return by path the work of each layer that has FLOPs and moves bytes.

    A layer with an operator that is not counted is left out: its FLOPs would be too few, and its speed too low.
    """
    flops: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    unknown: set[str] = set()
    for row in operators:
        if row.get("phase", "forward") != "forward":
            continue
        counted = read_work(row, "flops")
        traffic: list[Any] = [row.get(column) for column in TRAFFIC]
        if counted is None or None in traffic:
            unknown.add(row["layer"])
        else:
            flops[row["layer"]] += counted
            moved[row["layer"]] += sum(traffic)
    paths = (path for path in flops if path not in unknown and flops[path] and moved[path])
    return {path: LayerWork(flops[path], moved[path]) for path in paths}


def find_shared_times(report: Report, work: Iterable[str]) -> set[str]:
    """Return the layers whose measured time is not of their own work alone; ``work`` has the paths to check."""
    tables = [record.value for record in report.statuses.values() if isinstance(record.value, LayerTable)]
    timed = [table for table in tables if {"path", "calls", "own_forward_seconds"} <= set(table.columns)]
    return layer_view.find_shared_times((row for table in timed for row in table), work)
