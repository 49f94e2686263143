"""The model as a tree of its layers, each with what it costs and its share of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..quantity import Scale, scale_value
from ..trace import LayerTable, parent_path
from .content import visible

if TYPE_CHECKING:
    from ..comparison import Comparison
    from ..report import Report

__all__ = ["layers_with_times", "render"]

#: What stands behind a layer, where there is such a column: column, unit, what follows the unit, scale.
_VALUES = (
    ("params", "", "params", Scale.SI),
    ("macs", "MACs", "", Scale.SI),
    ("forward_seconds", "s", "forward", Scale.TIME),
    ("backward_seconds", "s", "backward", Scale.TIME),
)


def render(result: Report | Comparison, depth: int | None = None) -> str:
    """Return the layers as a tree down to a depth, one tree for each model.

    A layer has its type, what it gives out, and where the report holds them: parameters, MACs, forward and backward
    time with the layers inside, each with its share of the model's, and the FLOPs it achieves in a second of forward
    time.
    """
    from ..comparison import Comparison

    reports = result.reports if isinstance(result, Comparison) else (result,)
    return "\n\n".join("\n".join(_lines(report, depth)) for report in reports) + "\n"


def layers_with_times(report: Report) -> list[dict[str, Any]]:
    """Return the rows of the layers, each with the columns of ``layer_times`` for its path where that was measured."""
    times: dict[str, Mapping[str, Any]] = {}
    record = report.statuses.get("layer_times")
    if record is not None and isinstance(record.value, LayerTable):
        times = {row["path"]: row for row in record.value}
    return [{**times.get(row["path"], {}), **row} for row in report.layers or ()]


def _lines(report: Report, depth: int | None) -> Iterator[str]:
    yield visible(f"{report.name}  ({report.backend})")
    rows = [row for row in layers_with_times(report) if depth is None or row["depth"] <= depth]
    if not rows:
        yield "no layers: the model was not traced"
        return
    known = {row["path"] for row in rows}
    inside: dict[str, list[dict[str, Any]]] = {}
    for row in rows[1:]:
        parent = parent_path(row["path"]) or ""
        while parent and parent not in known:
            parent = parent_path(parent) or ""
        inside.setdefault(parent, []).append(row)
    shown = list(_branches(rows[0], inside))
    width = max(len(label) for label, _ in shown)
    for label, row in shown:
        yield f"{label:<{width}}  {_values(row, rows[0])}".rstrip()


def _branches(root: dict[str, Any], inside: Mapping[str, Sequence[dict[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """Yield each layer with the lines that lead to it; without recursion, for models of any depth."""
    waiting = [("", "", root)]
    while waiting:
        stem, turn, row = waiting.pop()
        name = visible(row["path"].rpartition(".")[2])
        yield f"{stem}{turn}{f'{name}: ' if name else ''}{visible(row['type'])}", row
        below = stem + {"": "", "├── ": "│   ", "└── ": "    "}[turn]
        children = inside.get(row["path"], ())
        last = len(children) - 1
        turns = [("└── " if place == last else "├── ", child) for place, child in enumerate(children)]
        waiting += [(below, sign, child) for sign, child in reversed(turns)]


def _values(row: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    parts = [", ".join(str(list(shape)) for shape in row.get("output_shapes", ()))]
    for column, unit, word, scale in _VALUES:
        value, whole = row.get(column), root.get(column)
        if value:
            share = f" ({_percent(value / whole)})" if whole else ""
            parts.append(f"{scale_value(value, unit, scale)} {word}".rstrip() + share)
    seconds = row.get("forward_seconds")
    if seconds and row.get("flops"):
        parts.append(str(scale_value(row["flops"] / seconds, "FLOP/s", Scale.SI)))
    if not row["calls"]:
        parts.append("not called")
    return ", ".join(filter(None, parts))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.0005 else "<0.1 %"
