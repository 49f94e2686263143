"""Which operators of a layer account for a difference of its counts: what the framework or the model calls now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..results.report import Report

__all__ = ["OperatorsByLayer", "operators_by_layer", "operators_moved"]

#: For each layer and operator its calls and its count.
OperatorsByLayer = Mapping[tuple[str, str], tuple[int, float]]

#: How many operators are named.
_NAMED = 4


def operators_by_layer(report: Report, column: str) -> OperatorsByLayer:
    """Return the calls of each operator in each layer of a report, and the sum of their ``macs`` or ``flops``."""
    sums: dict[tuple[str, str], tuple[int, float]] = {}
    rows: Iterable[Mapping[str, Any]] = report.operators or ()
    for row in rows:
        key = str(row["layer"]), str(row["operator"])
        calls, count = sums.get(key, (0, 0))
        sums[key] = calls + 1, count + (row[column] or 0)
    return sums


def operators_moved(before: OperatorsByLayer, after: OperatorsByLayer, layers: tuple[str, str]) -> str:
    """Return the operators of a layer, named by its path in either report, whose counts moved; the largest first.

    Empty if one operator moved that is called as often as before: the difference of the layer says the same.

    >>> before = {("rotary", "bmm"): (1, 16)}
    >>> operators_moved(before, {("rotary", "mul"): (1, 8)}, ("rotary", "rotary"))
    'bmm -16 (no longer called), mul +8 (not called before)'
    """
    mine = {name: value for (layer, name), value in before.items() if layer == layers[0]}
    theirs = {name: value for (layer, name), value in after.items() if layer == layers[1]}
    moved = []
    for name in dict.fromkeys((*mine, *theirs)):
        (calls, count), (other_calls, other_count) = mine.get(name, (0, 0)), theirs.get(name, (0, 0))
        if count != other_count:
            moved.append((other_count - count, name, _calls(calls, other_calls)))
    if not moved or (len(moved) == 1 and not moved[0][2]):
        return ""
    moved.sort(key=lambda each: -abs(each[0]))
    texts = [f"{name} {difference:+,}{calls}" for difference, name, calls in moved[:_NAMED]]
    return ", ".join([*texts, *([f"and {len(moved) - _NAMED} more operators"] if len(moved) > _NAMED else [])])


def _calls(before: int, after: int) -> str:
    if before == after:
        return ""
    return (
        " (not called before)"
        if not before
        else " (no longer called)"
        if not after
        else f" ({before} -> {after} calls)"
    )
