"""The operators of a layer that account for a count that moved: their differences, and how often they are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from profilerkit.count_text import format_count
from profilerkit.results.report import Report

#: How many operators of a layer are named.
_NAMED = 4


class OperatorSum(NamedTuple):
    """The calls of an operator in a layer, and the sum of their counts."""

    calls: int = 0
    total: float = 0


def sum_operators(report: Report, column: str) -> dict[str, dict[str, OperatorSum]]:
    """Return by the path of each layer its operators: their calls, and the sum of their ``macs`` or ``flops``."""
    sums: dict[str, dict[str, OperatorSum]] = {}
    for row in report.operators or ():
        of_layer = sums.setdefault(str(row["layer"]), {})
        name = str(row["operator"])
        calls, total = of_layer.get(name, OperatorSum())
        of_layer[name] = OperatorSum(calls + 1, total + (row[column] or 0))
    return sums


def compare_operators(before: Mapping[str, OperatorSum], after: Mapping[str, OperatorSum]) -> str:
    """Return the operators of a layer whose counts moved, the largest differences first.

    Empty if one operator moved that is called as often as before: the difference of the layer says the same.

    >>> compare_operators({"bmm": OperatorSum(1, 16)}, {"mul": OperatorSum(1, 8)})
    'bmm -16 (no longer called), mul +8 (not called before)'
    """
    nothing = OperatorSum()
    pairs = {name: (before.get(name, nothing), after.get(name, nothing)) for name in {**before, **after}}
    differences = {name: new.total - old.total for name, (old, new) in pairs.items() if new.total != old.total}
    names = sorted(differences, key=lambda name: -abs(differences[name]))
    calls = {name: _describe_calls(*pairs[name]) for name in names}
    if len(names) == 1 and not calls[names[0]]:
        return ""
    texts = [f"{name} {differences[name]:+,}{calls[name]}" for name in names[:_NAMED]]
    if len(names) > _NAMED:
        texts.append(f"and {format_count(len(names) - _NAMED, 'more operator')}")
    return ", ".join(texts)


def _describe_calls(before: OperatorSum, after: OperatorSum) -> str:
    """Return how the number of calls changed, in words; empty if it did not."""
    if before.calls == after.calls:
        return ""
    if not before.calls:
        return " (not called before)"
    return f" ({before.calls} -> {after.calls} calls)" if after.calls else " (no longer called)"
