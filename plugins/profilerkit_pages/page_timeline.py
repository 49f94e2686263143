"""The operators of a timed pass as boxes inside boxes: phases, layers and operators in the order of time."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.render.time_stacks import find_rows, read_seconds
from profilerkit.results.report import Report
from profilerkit.trace.layer_paths import walk_outwards

from .columns import Row, describe_columns
from .layer_tree import find_places
from .page_parts import pack


@dataclass
class Box:
    """A stretch of a pass: an operator (``operator`` is its name), or a phase or a layer around operators.

    ``layer`` is the path of the layer, or of the layer that ran the operator; ``parent`` is the index of the box
    around, -1 for the whole. ``macs`` is None if the MACs of an operator inside are not known; ``missing`` says why.
    """

    name: str
    layer: str
    parent: int
    operator: str = ""
    seconds: float = 0.0
    macs: int | None = 0
    missing: str = ""


def describe_timeline(report: Report, rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return the operators of a pass in their layers, as boxes in the order of time; None without times.

    ``rows`` are the rows of the page's table of layers.
    """
    places = find_places(rows)
    boxes = lay_out_pass(report, places)
    if not boxes:
        return None
    row_indices = [_find_row(box.layer, places) for box in boxes]
    columns = describe_columns(("seconds", "macs", "missing"), [vars(box) for box in boxes])
    return {
        "parents": [box.parent for box in boxes],
        "names": pack([visible(box.name) for box in boxes]),
        # The type of the layer gives a box its color; the operator is empty for a box around operators.
        "types": pack([visible(str(rows[index]["type"])) if index >= 0 else "" for index in row_indices]),
        "layers": pack(row_indices),
        "operators": pack([visible(box.operator) for box in boxes]),
        "columns": [{**column, "dashes": False} for column in columns],
    }


def _find_row(path: str, places: Mapping[str, int]) -> int:
    """Return the index of the row of a layer, or of the nearest around it that has a row; -1 for none."""
    return next((places[outer] for outer in walk_outwards(path) if outer in places), -1)


def lay_out_pass(report: Report, paths: Container[str]) -> list[Box]:
    """Return the boxes of a pass, each behind the box around it, in the order of the first operator in each.

    ``paths`` are the paths of the layers that have boxes. The first box is the whole. A pass forward and backward has
    a box for each phase. The list is empty for a report without a table that has the times of operators and their
    order.
    """
    rows = find_rows(report, "operator", "layer", "phase", "order", "seconds")
    timed = [row for row in rows if read_seconds(row["seconds"]) and is_number(row["order"])]
    if not timed:
        return []
    boxes = [Box("", "", -1)]
    phases = {row["phase"] for row in timed}
    # The indices of boxes by phase and layer. A phase has the layer ""; a single phase is the whole pass.
    indices = {(phase, ""): 0 for phase in phases} if len(phases) == 1 else {}
    for row in sorted(timed, key=lambda row: row["order"]):
        phase = row["phase"]
        if (phase, "") not in indices:
            indices[phase, ""] = len(boxes)
            boxes.append(Box(phase, "", 0))
        inwards = [path for path in walk_outwards(row["layer"]) if not path or path in paths][::-1]
        around = _open_layers(boxes, indices, phase, inwards)
        boxes.append(_make_operator(row, around))
        _add_work(boxes, len(boxes) - 1, row)
    return boxes


def _make_operator(row: Mapping[str, Any], parent: int) -> Box:
    """Return the box of an operator, still without its work; all its calls in a layer are one box."""
    calls = row.get("calls") or 1
    several = f"{calls} x " if is_number(calls) and calls > 1 else ""
    return Box(f"{several}{row['operator']}", row["layer"], parent, row["operator"], missing=row.get("missing") or "")


def _open_layers(boxes: list[Box], indices: dict[tuple[str, str], int], phase: str, inwards: Sequence[str]) -> int:
    """Return the index of the box of the last layer; missing boxes of layers are made, the outermost first.

    ``inwards`` are the paths of layers, each inside the layer before; the first path is the model's: "".
    """
    for outer, inner in pairwise(inwards):
        if (phase, inner) not in indices:
            indices[phase, inner] = len(boxes)
            boxes.append(Box(inner[len(outer) + 1 :] if outer else inner, inner, indices[phase, outer]))
    return indices[phase, inwards[-1]]


def _add_work(boxes: Sequence[Box], index: int, row: Mapping[str, Any]) -> None:
    """Add the seconds and MACs of an operator to the box at an index, and to all boxes around it."""
    macs = row["macs"] if is_number(row.get("macs")) else None
    while index >= 0:
        box = boxes[index]
        box.seconds += row["seconds"]
        box.macs = None if macs is None or box.macs is None else box.macs + macs
        index = box.parent
