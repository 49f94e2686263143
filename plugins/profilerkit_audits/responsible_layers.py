"""The layers that are responsible for a count that moved, each with its difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from profilerkit.count_text import format_count
from profilerkit.results.report import Report
from profilerkit.trace.alignment import align, find_difference

__all__ = ["find_layers", "leave_out_renamed"]

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


def find_layers(before: Report, after: Report, metric: str) -> tuple[str, ...]:
    """Return the layers in which a metric moved, the largest differences first, equal layers of a type in one text.

    Layers that have only another name are left out. For the peak of memory it is the layer at the peak, and if that
    moved, the layers in both reports.
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
    unit = " parameters" if metric == "model_size" else ""  # the layers' bytes are not aligned
    return tuple(_describe_moves(before, after, column, unit))


def _describe_moves(before: Report, after: Report, column: str, unit: str) -> Iterator[str]:
    """Yield "block.0 (Linear) and 3 like it: +64 each, added" for layers that moved alike, and how many more did."""
    paths: dict[_Move, list[str]] = {}
    for row in align(before, after, columns=(column,)):
        difference = find_difference(row, column)
        if difference:  # a layer without a number in one of the reports has none
            kind = row["type"] if row["change"] == "removed" else row["other_type"]
            paths.setdefault(_Move(kind, difference, row["change"]), []).append(row["path"])
    counts = leave_out_renamed(Counter({move: len(alike) for move, alike in paths.items()}))
    moves = sorted(counts, key=lambda move: -abs(move.difference * counts[move]))
    for move in moves[:_NAMED]:
        others, suffix = ("", "") if counts[move] == 1 else (f" and {counts[move] - 1} like it", " each")
        end = f", {move.change}" if move.change in ("added", "removed") else ""
        yield f"{paths[move][0] or '(model)'} ({move.kind}){others}: {move.difference:+,}{unit}{suffix}{end}"
    rest = sum(counts[move] for move in moves[_NAMED:])
    if rest:
        yield f"and {format_count(rest, 'more layer')}"


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
