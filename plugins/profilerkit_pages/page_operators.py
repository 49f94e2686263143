"""The operators of a report as a page draws them: as a graph, along the time of a pass, and as points of a roofline."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.render.time_stacks import find_rows, read_seconds
from profilerkit.trace.layer_paths import nearest_around, walk_outwards
from profilerkit.trace.layer_view import number_kinds

from .layer_work import sum_forward_work
from .page_parts import pack
from .page_records import OperatorData, Packed, RooflineData, TimelineData
from .page_tables import SPEEDS, Row, describe_column, find_places, make_plain

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["Box", "add_speeds", "describe_operators", "describe_roofline", "describe_timeline", "lay_out_pass"]


def describe_operators(report: Report, layers: Sequence[Row]) -> OperatorData | None:
    """Return the operators in their order; None for a report without any. ``layers`` are the rows of its layers."""
    operators = report.operators
    if not operators:
        return None
    places, kinds = find_places(layers), number_kinds(layers)
    steps_back = [_count_steps_back(index, row) for index, row in enumerate(operators)]
    with_layers_inside = {path for path in nearest_around(places).values() if path is not None}

    def list_work(column: str) -> Packed:
        # That of innermost layers is their own work, which the table of layers has already: see `OperatorData`.
        return pack([row[column] if row["layer"] in with_layers_inside else 0 for row in operators])

    return {
        "names": pack([visible(str(row["operator"])) for row in operators]),
        "layers": pack([places.get(row["layer"], -1) for row in operators]),
        "phases": pack([str(row.get("phase", "forward")) for row in operators]),
        "reads": pack(steps_back) if any(steps_back) else None,
        "kinds": pack([kinds[row["path"]] for row in layers]),
        "macs": list_work("macs"),
        "flops": list_work("flops"),
    }


def _count_steps_back(index: int, operator: Row) -> tuple[int, ...]:
    """Return how far before an operator those are whose results it reads; 0 stands for an input of the model.

    Steps back and not positions, since repeated layers have the same steps, which pack well.
    """
    return tuple(0 if source < 0 else index - source for source in operator.get("reads", ()))


def describe_timeline(report: Report, layers: Sequence[Row]) -> TimelineData | None:
    """Return the operators of a pass in their layers, as rows of a tree in the order of time; None without times."""
    places = find_places(layers)
    boxes = lay_out_pass(report, places)
    if not boxes:
        return None
    of_boxes = [_find_layer(box.layer, places) for box in boxes]
    columns = [
        *describe_column("seconds", [box.seconds for box in boxes]),
        *describe_column("macs", [box.macs for box in boxes]),
        *describe_column("missing", [box.missing for box in boxes]),
    ]
    return {
        "parents": [box.parent for box in boxes],
        "names": pack([visible(box.name) for box in boxes]),
        "types": pack([visible(str(layers[index]["type"])) if index >= 0 else "" for index in of_boxes]),
        "layers": pack(of_boxes),
        "operators": pack([visible(box.operator) for box in boxes]),
        "columns": [{**column, "dashes": False} for column in columns],
    }


def _find_layer(path: str, places: Mapping[str, int]) -> int:
    """Return the place of a layer, or of the nearest around it that has a row; -1 for none."""
    return next((places[outer] for outer in walk_outwards(path) if outer in places), -1)


def describe_roofline(report: Report, layers: Sequence[Row]) -> RooflineData:
    """Return what each layer does itself in the forward pass: its FLOPs, the bytes it moves, and its seconds."""
    work = sum_forward_work(report.operators or ())
    drawn = [(index, row, work[row["path"]]) for index, row in enumerate(layers) if row["path"] in work]
    return {
        "layers": [index for index, _, _ in drawn],
        "flops": [layer_work.flops for _, _, layer_work in drawn],
        "bytes": [layer_work.moved_bytes for _, _, layer_work in drawn],
        "seconds": [make_plain(row.get("own_forward_seconds")) for _, row, _ in drawn],
    }


def add_speeds(layers: Sequence[Row], roofline: RooflineData) -> list[dict[str, Any]]:
    """Return the rows of layers with the numbers that the roofline draws, so that a table has them too.

    They are FLOPs per byte (``own_intensity``) and FLOPs per second (``own_speed``), None where not known.
    """
    rows = [{**row, **dict.fromkeys(SPEEDS)} for row in layers]
    points = zip(roofline["layers"], roofline["flops"], roofline["bytes"], roofline["seconds"], strict=True)
    for index, flops, moved_bytes, seconds in points:
        rows[index]["own_intensity"] = flops / moved_bytes  # a roofline has layers that move bytes alone
        if is_number(seconds) and seconds > 0:
            rows[index]["own_speed"] = flops / seconds
    return rows


@dataclass
class Box:
    """A stretch of a pass: an operator (``operator`` is its name), or a phase or a layer around operators.

    ``layer`` is the path of the layer, or of that which ran the operator; ``parent`` is the place of the box around it,
    -1 for the whole. ``macs`` is None where they are not known of an operator in it; ``missing`` says why.
    """

    name: str
    layer: str
    parent: int
    operator: str = ""
    seconds: float = 0.0
    macs: int | None = 0
    missing: str = ""


def lay_out_pass(report: Report, layers: Container[str]) -> list[Box]:
    """Return the boxes of a pass, each behind the box around it, in the order of the first operator in each.

    ``layers`` are the paths of the layers that have boxes. The first box is the whole. A pass forward and backward has
    a box for each phase. The list is empty for a report without a table that has the times of operators and their
    order.
    """
    rows = find_rows(report, "operator", "layer", "phase", "order", "seconds")
    timed = [row for row in rows if read_seconds(row["seconds"]) and is_number(row["order"])]
    if not timed:
        return []
    boxes = [Box("", "", -1)]
    places: dict[tuple[str, str], int] = {}  # of boxes, by phase and layer; those of the phases themselves by ""
    phases = {row["phase"] for row in timed}
    if len(phases) == 1:  # the whole is that phase
        places[phases.pop(), ""] = 0
    for row in sorted(timed, key=lambda row: row["order"]):
        if (row["phase"], "") not in places:
            places[row["phase"], ""] = len(boxes)
            boxes.append(Box(row["phase"], "", 0))
        inwards = [path for path in walk_outwards(row["layer"]) if not path or path in layers][::-1]
        around = _open_layers(boxes, places, row["phase"], inwards)
        calls = row.get("calls") or 1
        several = f"{calls} x " if is_number(calls) and calls > 1 else ""
        missing = row.get("missing") or ""
        boxes.append(Box(f"{several}{row['operator']}", row["layer"], around, row["operator"], missing=missing))
        _add_work(boxes, row)
    return boxes


def _open_layers(boxes: list[Box], places: dict[tuple[str, str], int], phase: str, inwards: Sequence[str]) -> int:
    """Return the place of the box of the last layer; boxes of layers that are not there yet are made, outer ones first.

    ``inwards`` are the paths of layers, each inside the one before it; the first is that of the model: "".
    """
    for outer, inner in pairwise(inwards):
        if (phase, inner) not in places:
            places[phase, inner] = len(boxes)
            boxes.append(Box(inner[len(outer) + 1 :] if outer else inner, inner, places[phase, outer]))
    return places[phase, inwards[-1]]


def _add_work(boxes: Sequence[Box], row: Mapping[str, Any]) -> None:
    """Add the seconds and MACs of an operator to its own box, which is the last one, and to all around it."""
    macs = row["macs"] if is_number(row.get("macs")) else None
    index = len(boxes) - 1
    while index >= 0:
        box = boxes[index]
        box.seconds += row["seconds"]
        box.macs = None if macs is None or box.macs is None else box.macs + macs
        index = box.parent
