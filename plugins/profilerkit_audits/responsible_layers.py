"""The layers that are responsible for a count that moved, each with its difference and the operators that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from profilerkit.count_text import format_count
from profilerkit.results.report import Report
from profilerkit.trace.alignment import align, find_difference
from profilerkit.trace.columns import WORK

from .responsible_operators import compare_operators, sum_operators

#: By metric, the column of the aligned layers whose sum is the metric.
_COLUMNS = {"macs": "own_macs", "flops": "own_flops", "total_params": "own_params"}
#: How many kinds of moves are named.
_NAMED = 4


class Move(NamedTuple):
    """The common values of layers that moved alike: their type, the difference of each, and the kind of change."""

    kind: str
    difference: float
    change: str


def find_layers(before: Report, after: Report, metric: str) -> tuple[str, ...]:
    """Return the layers in which a metric moved, the largest differences first, equal layers of a type in one text.

    A size is explained by parameters; if these are equal, as with another dtype, by the bytes of innermost layers. The
    changed operators stand behind the difference of a layer; for equal layers, the operators of the first. Layers that
    have only another name are left out. For the peak of memory it is the layer at the peak, and if that moved, the
    layers in both reports.
    """
    if metric == "memory_footprint":
        places = dict.fromkeys(filter(None, map(_find_peak, (before, after))))
        return (f"peak in {', then in '.join(places)}",) if places else ()
    column, unit = _COLUMNS.get(metric, ""), ""
    otherwise: tuple[str, ...] = ()
    if metric == "model_size":
        parameters = before.get("total_params"), after.get("total_params")
        column, unit = "own_params", " parameters"
        if None not in parameters and parameters[0] == parameters[1]:
            column, unit = "weight_bytes", " B"
            otherwise = ("as many parameters as before: buffers or dtypes differ",)
    if any(side.layers is None or column not in side.layers.columns for side in (before, after)):
        return otherwise
    return tuple(_describe_moves(before, after, metric, column, unit)) or otherwise


def _describe_moves(before: Report, after: Report, metric: str, column: str, unit: str) -> Iterator[str]:
    """Yield a text for the layers that moved alike, the largest sum first, and how many more layers there are.

    Of a column that includes the layers inside these are innermost layers.
    """
    alike: dict[Move, list[Mapping[str, Any]]] = {}
    rows = [row for row in align(before, after, columns=(column,)) if column.startswith("own_") or row["is_leaf"]]
    for row in rows:
        difference = find_difference(row, column)
        if difference:
            kind = row["type" if row["change"] == "removed" else "other_type"]
            alike.setdefault(Move(kind, difference, row["change"]), []).append(row)
    numbers = leave_out_renamed(Counter({move: len(rows) for move, rows in alike.items()}))
    moves = sorted(numbers, key=lambda move: -abs(move.difference * numbers[move]))
    are_known = metric in WORK and before.operators is not None and after.operators is not None
    old, new = (sum_operators(report, metric) if are_known else {} for report in (before, after))
    for move in moves[:_NAMED]:
        first = alike[move][0]
        text = _write_move(move, first["path"] or "(model)", numbers[move], unit)
        operators = ""
        if move.change not in ("added", "removed"):
            operators = compare_operators(old.get(first["path"], {}), new.get(first["other_path"], {}))
        yield f"{text} by {operators}" if operators else text
    rest = sum(numbers[move] for move in moves[_NAMED:])
    if rest:
        yield f"and {format_count(rest, 'more layer')}"


def _write_move(move: Move, path: str, number: int, unit: str) -> str:
    """Return how so many layers moved, of which the first has this path.

    >>> _write_move(Move("Linear", 8, "added"), "head", 3, "")
    'head (Linear) and 2 like it: +8 each, added'
    """
    others, suffix = ("", "") if number == 1 else (f" and {number - 1} like it", " each")
    change = f", {move.change}" if move.change in ("added", "removed") else ""
    return f"{path} ({move.kind}){others}: {move.difference:+,}{unit}{suffix}{change}"


def leave_out_renamed(counts: Counter[Move]) -> Counter[Move]:
    """Return counts without renamed layers: added layers that equal removed layers of the same type."""
    left = Counter(counts)
    for move in counts:
        if move.change == "added":
            gone = Move(move.kind, -move.difference, "removed")
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
