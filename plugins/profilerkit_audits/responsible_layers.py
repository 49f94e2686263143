"""The layers that are responsible for a count that moved, each with its difference and the operators that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from profilerkit.count_text import format_count
from profilerkit.results.report import Report
from profilerkit.trace.alignment import align, find_difference
from profilerkit.trace.columns import WORK

from .changed_operators import compare_operators, sum_operators

#: By metric, the column of the aligned layers whose sum is the metric.
_COLUMNS = {
    "macs": "own_macs",
    "flops": "own_flops",
    "total_params": "own_params",
    "model_size": "own_params",
}
#: How many kinds of moves are named.
_NAMED = 4


class _Move(NamedTuple):
    """The common values of layers that moved alike: their type, the difference of each, and the kind of change."""

    kind: str
    difference: float
    change: str

    @property
    def is_on_both_sides(self) -> bool:
        """Whether both reports have the layers."""
        return self.change not in ("added", "removed")


class _Paths(NamedTuple):
    """The path of a layer in each report; the same path twice if one report alone has the layer."""

    before: str
    after: str


class _Group(NamedTuple):
    """Layers that moved alike: how many, and the paths of the first of them."""

    move: _Move
    number: int
    first: _Paths

    def describe(self, unit: str) -> str:
        """Return the first layer with its difference: "block.0 (Linear) and 3 like it: +64 each, added"."""
        others, suffix = ("", "") if self.number == 1 else (f" and {self.number - 1} like it", " each")
        end = "" if self.move.is_on_both_sides else f", {self.move.change}"
        layer = f"{self.first.before or '(model)'} ({self.move.kind}){others}"
        return f"{layer}: {self.move.difference:+,}{unit}{suffix}{end}"


def find_layers(before: Report, after: Report, metric: str) -> tuple[str, ...]:
    """Return the layers in which a metric moved, the largest differences first, equal layers of a type in one text.

    The changed operators stand behind the difference of a layer; for equal layers, the operators of the first. Layers
    that have only another name are left out. For the peak of memory it is the layer at the peak, and if that moved, the
    layers in both reports.
    """
    if metric == "memory_footprint":
        places = dict.fromkeys(filter(None, map(_find_peak, (before, after))))
        return (f"peak in {', then in '.join(places)}",) if places else ()
    column = _COLUMNS.get(metric)
    if column is None or any(side.layers is None or column not in side.layers.columns for side in (before, after)):
        return ()
    parameters = before.get("total_params"), after.get("total_params")
    if metric == "model_size" and None not in parameters and parameters[0] == parameters[1]:
        return ("as many parameters as before: buffers or dtypes differ",)
    return tuple(_describe_moves(before, after, metric, column))


def _describe_moves(before: Report, after: Report, metric: str, column: str) -> Iterator[str]:
    """Yield a text for each group of layers in which a column moved, and how many more layers there are."""
    unit = " parameters" if metric == "model_size" else ""  # the layers' bytes are not aligned
    are_known = metric in WORK and before.operators is not None and after.operators is not None
    old, new = (sum_operators(report, metric) if are_known else {} for report in (before, after))
    groups = _group_moves(before, after, column)
    for group in groups[:_NAMED]:
        text = group.describe(unit)
        mine, theirs = old.get(group.first.before, {}), new.get(group.first.after, {})
        operators = compare_operators(mine, theirs) if group.move.is_on_both_sides else ""
        yield f"{text} by {operators}" if operators else text
    rest = sum(group.number for group in groups[_NAMED:])
    if rest:
        yield f"and {format_count(rest, 'more layer')}"


def _group_moves(before: Report, after: Report, column: str) -> list[_Group]:
    """Return the layers that moved, without those that have only another name; the largest sum first."""
    layers: dict[_Move, list[_Paths]] = {}
    for move, paths in _find_moves(before, after, column):
        layers.setdefault(move, []).append(paths)
    numbers = leave_out_renamed(Counter({move: len(alike) for move, alike in layers.items()}))
    groups = [_Group(move, number, layers[move][0]) for move, number in numbers.items()]
    return sorted(groups, key=lambda group: -abs(group.move.difference * group.number))


def _find_moves(before: Report, after: Report, column: str) -> Iterator[tuple[_Move, _Paths]]:
    """Yield each layer that moved, and its paths; no layer without a number in one of the reports."""
    for row in align(before, after, columns=(column,)):
        difference = find_difference(row, column)
        if difference:
            side = "" if row["change"] == "removed" else "other_"  # the last report that has the layer
            yield _Move(row[f"{side}type"], difference, row["change"]), _Paths(row["path"], row[f"{side}path"])


def leave_out_renamed(counts: Counter[_Move]) -> Counter[_Move]:
    """Return counts without renamed layers: added layers that equal removed layers of the same type."""
    left = Counter(counts)
    for move in counts:
        if move.change == "added":
            gone = _Move(move.kind, -move.difference, "removed")
            renamed = min(counts[move], counts[gone])
            left[move] -= renamed
            left[gone] -= renamed
    return +left


def _find_peak(report: Report) -> str:
    """Return the layer and the operator at the peak of memory; empty if they are not known."""
    memory, operators = report.memory, report.operators
    if memory is None or operators is None or memory.peak_index is None:
        return ""
    peak: Mapping[str, Any] = operators[memory.peak_index]
    return f"{peak['layer'] or '(model)'} ({peak['operator']})"
