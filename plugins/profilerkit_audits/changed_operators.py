"""The operators of a layer whose counts moved between two reports."""

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


#: The operators of a layer, by their names.
Operators = Mapping[str, OperatorSum]


def sum_operators(report: Report, column: str) -> dict[str, dict[str, OperatorSum]]:
    """Return by the path of each layer its operators: their calls, and the sum of their ``macs`` or ``flops``."""
    sums: dict[str, dict[str, OperatorSum]] = {}
    for row in report.operators or ():
        of_layer = sums.setdefault(str(row["layer"]), {})
        name = str(row["operator"])
        calls, total = of_layer.get(name, OperatorSum())
        of_layer[name] = OperatorSum(calls + 1, total + (row[column] or 0))
    return sums


class _OperatorMove(NamedTuple):
    """One operator of a layer before and after."""

    name: str
    before: OperatorSum
    after: OperatorSum

    @property
    def difference(self) -> float:
        """How much more the operator counts after."""
        return self.after.total - self.before.total

    @property
    def calls(self) -> str:
        """How the number of its calls changed, in words; empty if it did not."""
        before, after = self.before.calls, self.after.calls
        if before == after:
            return ""
        if not before:
            return " (not called before)"
        return f" ({before} -> {after} calls)" if after else " (no longer called)"

    def __str__(self) -> str:
        return f"{self.name} {self.difference:+,}{self.calls}"


def compare_operators(before: Operators, after: Operators) -> str:
    """Return the operators of a layer whose counts moved, the largest differences first.

    Empty if one operator moved that is called as often as before: the difference of the layer says the same.

    >>> compare_operators({"bmm": OperatorSum(1, 16)}, {"mul": OperatorSum(1, 8)})
    'bmm -16 (no longer called), mul +8 (not called before)'
    """
    nothing = OperatorSum()
    operators = [
        _OperatorMove(name, before.get(name, nothing), after.get(name, nothing)) for name in {**before, **after}
    ]
    moves = sorted((move for move in operators if move.difference), key=lambda move: -abs(move.difference))
    if len(moves) == 1 and not moves[0].calls:
        return ""
    texts = [str(move) for move in moves[:_NAMED]]
    if len(moves) > _NAMED:
        texts.append(f"and {format_count(len(moves) - _NAMED, 'more operator')}")
    return ", ".join(texts)
