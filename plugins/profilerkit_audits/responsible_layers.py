"""The layers that are responsible for a count that moved, each with its difference and the operators that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from profilerkit.count_text import format_count
from profilerkit.results.report import Report
from profilerkit.trace.alignment import align, find_difference
from profilerkit.trace.columns import WORK

__all__ = ["compare_operators", "find_layers", "leave_out_renamed", "sum_operators"]

#: By metric, the column of the aligned layers whose sum is the metric.
_COLUMNS = {
    "macs": "own_macs",
    "flops": "own_flops",
    "total_params": "own_params",
    "model_size": "own_params",
}
#: How many kinds of layers, and how many operators of each, are named.
_NAMED = 4


class _Move(NamedTuple):
    """The common values of layers that moved alike: their type, the difference of each, and the kind of change."""

    kind: str
    difference: float
    change: str


class OperatorSum(NamedTuple):
    """The calls of an operator in a layer, and the sum of their counts."""

    calls: int
    total: float


#: By the path of a layer and the name of an operator.
Operators = Mapping[tuple[str, str], OperatorSum]


def find_layers(before: Report, after: Report, metric: str) -> tuple[str, ...]:
    """Return the layers in which a metric moved, the largest differences first, equal layers of a type in one text.

    The changed operators stand behind the difference of a layer; for equal layers, the operators of the first. Layers
    that have only another name are left out. For the peak of memory it is the layer at the peak, in either report.
    """
    if metric == "memory_footprint":
        return tuple(_find_peaks(before, after))
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
    paths: dict[_Move, list[tuple[str, str]]] = {}
    for move, pair in _find_moves(before, after, column):
        paths.setdefault(move, []).append(pair)
    counts = leave_out_renamed(Counter({move: len(pairs) for move, pairs in paths.items()}))
    ranked = sorted(counts, key=lambda move: -abs(move.difference * counts[move]))
    for move in ranked[:_NAMED]:
        path, path_after = paths[move][0]
        text = _describe_move(move, counts[move], path, unit)
        is_on_both_sides = move.change not in ("added", "removed")
        operators = compare_operators(old, new, path, path_after) if is_on_both_sides else ""
        yield f"{text} by {operators}" if operators else text
    rest = sum(counts[move] for move in ranked[_NAMED:])
    if rest:
        yield f"and {format_count(rest, 'more layer')}"


def leave_out_renamed(counts: Counter[_Move]) -> Counter[_Move]:
    """Return counts without renamed layers: added layers that equal removed layers of the same type."""
    left = Counter(counts)
    for move in counts:
        if move.change == "added":
            gone = _Move(move.kind, -move.difference, "removed")
            pairs = min(counts[move], counts[gone])
            left[move] -= pairs
            left[gone] -= pairs
    return +left


def _find_moves(before: Report, after: Report, column: str) -> Iterator[tuple[_Move, tuple[str, str]]]:
    """Yield each layer that moved, with its paths in both reports; no layer without a number in one of them."""
    for row in align(before, after, columns=(column,)):
        difference = find_difference(row, column)
        if difference:
            other_path = row["path"] if row["other_path"] is None else row["other_path"]
            yield _Move(row["other_type"] or row["type"], difference, row["change"]), (row["path"], other_path)


def _describe_move(move: _Move, count: int, path: str, unit: str) -> str:
    """Return the first of equal layers with its difference: "block.0 (Linear) and 3 like it: +64 each, added"."""
    others, suffix = ("", "") if count == 1 else (f" and {count - 1} like it", " each")
    end = f", {move.change}" if move.change in ("added", "removed") else ""
    return f"{path or '(model)'} ({move.kind}){others}: {move.difference:+,}{unit}{suffix}{end}"


def _find_peaks(before: Report, after: Report) -> Iterator[str]:
    """Yield the place of the peak of memory, for each report that has the place."""
    for name, report in (("before", before), ("after", after)):
        memory, operators = report.memory, report.operators
        if memory is None or operators is None or memory.peak_index is None:
            continue
        peak: Mapping[str, Any] = operators[memory.peak_index]
        live = memory.live_bytes[memory.peak_index]
        layer = peak["layer"] or "(model)"
        yield f"{name}: peak after {peak['operator']} in {layer}, {live:,} B beside {memory.weight_bytes:,} B"


def sum_operators(report: Report, column: str) -> Operators:
    """Return the calls of each operator in each layer of a report, and the sum of their ``macs`` or ``flops``."""
    sums: dict[tuple[str, str], OperatorSum] = {}
    for row in report.operators or ():
        key = str(row["layer"]), str(row["operator"])
        calls, total = sums.get(key, (0, 0))
        sums[key] = OperatorSum(calls + 1, total + (row[column] or 0))
    return sums


def compare_operators(before: Operators, after: Operators, path: str, path_after: str) -> str:
    """Return the operators of a layer, named by its path in either report, whose counts moved; the largest first.

    Empty if one operator moved that is called as often as before: the difference of the layer says the same.

    >>> before = {("rotary", "bmm"): OperatorSum(1, 16)}
    >>> compare_operators(before, {("rotary", "mul"): OperatorSum(1, 8)}, "rotary", "rotary")
    'bmm -16 (no longer called), mul +8 (not called before)'
    """
    nothing = OperatorSum(0, 0)
    old = {name: total for (layer, name), total in before.items() if layer == path}
    new = {name: total for (layer, name), total in after.items() if layer == path_after}
    pairs = {name: (old.get(name, nothing), new.get(name, nothing)) for name in {**old, **new}}
    moves = {name: pair[1].total - pair[0].total for name, pair in pairs.items() if pair[0].total != pair[1].total}
    calls = {name: _describe_calls(pairs[name][0].calls, pairs[name][1].calls) for name in moves}
    if len(moves) == 1 and not any(calls.values()):
        return ""
    ranked = sorted(moves, key=lambda name: -abs(moves[name]))
    texts = [f"{name} {moves[name]:+,}{calls[name]}" for name in ranked[:_NAMED]]
    if len(ranked) > _NAMED:
        texts.append(f"and {format_count(len(ranked) - _NAMED, 'more operator')}")
    return ", ".join(texts)


def _describe_calls(before: int, after: int) -> str:
    if before == after:
        return ""
    if not before:
        return " (not called before)"
    return f" ({before} -> {after} calls)" if after else " (no longer called)"
