"""What each layer itself does in a forward pass, for rooflines: its FLOPs, and the bytes that it moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from profilerkit.trace.rows import TRAFFIC, read_work

__all__ = ["LayerWork", "sum_forward_work"]


class LayerWork(NamedTuple):
    """The FLOPs of a layer's own operators, and the bytes that they read and write."""

    flops: int
    moved_bytes: int


def sum_forward_work(operators: Iterable[Mapping[str, Any]]) -> dict[str, LayerWork]:
    """Return the work of each layer by its path, of those that have FLOPs and move bytes.

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
