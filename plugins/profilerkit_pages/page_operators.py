"""The operators of a report as a page draws them: as a graph, along the time of a pass, and as points of a roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.piping.outcome import is_number
from profilerkit.render.grids import visible
from profilerkit.trace.equal_layers import number_kinds
from profilerkit.trace.layer_paths import nearest_around, walk_outwards

from .layer_work import sum_forward_work
from .page_columns import SPEEDS, describe_column, make_plain
from .page_layers import Row
from .page_parts import pack
from .page_records import OperatorData, RooflineData, TimelineData
from .timeline import lay_out_pass

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["add_speeds", "describe_operators", "describe_roofline", "describe_timeline"]


def describe_operators(report: Report, layers: Sequence[Row], indices: Mapping[str, int]) -> OperatorData | None:
    """Return the operators in their order; None for a report without operators.

    Args:
        report: The report.
        layers: The rows of its layers.
        indices: The index of each of these rows, by path.
    """
    operators = report.operators
    if not operators:
        return None
    kinds = number_kinds(layers)
    steps_back = [_count_steps_back(index, row) for index, row in enumerate(operators)]
    with_layers_inside = {path for path in nearest_around(indices).values() if path is not None}
    of_outer_layer = [row["layer"] in with_layers_inside for row in operators]
    return {
        "names": pack([visible(str(row["operator"])) for row in operators]),
        "layers": pack([indices.get(row["layer"], -1) for row in operators]),
        "phases": pack([str(row.get("phase", "forward")) for row in operators]),
        "reads": pack(steps_back) if any(steps_back) else None,
        "kinds": pack([kinds[row["path"]] for row in layers]),
        "macs": pack([row["macs"] if is_outer else 0 for row, is_outer in zip(operators, of_outer_layer, strict=True)]),
        "flops": pack(
            [row["flops"] if is_outer else 0 for row, is_outer in zip(operators, of_outer_layer, strict=True)]
        ),
    }


def _count_steps_back(index: int, operator: Row) -> tuple[int, ...]:
    """Return how far before an operator those are whose results it reads; 0 stands for an input of the model.

    Steps back and not positions, since repeated layers have the same steps, which pack well.
    """
    return tuple(0 if source < 0 else index - source for source in operator.get("reads", ()))


def describe_timeline(report: Report, layers: Sequence[Row], indices: Mapping[str, int]) -> TimelineData | None:
    """Return the operators of a pass in their layers, as rows of a tree in the order of time; None without times."""
    boxes = lay_out_pass(report, indices)
    if not boxes:
        return None
    positions = [_find_layer(box.layer, indices) for box in boxes]
    columns = [
        *describe_column("seconds", [box.seconds for box in boxes]),
        *describe_column("macs", [box.macs for box in boxes]),
        *describe_column("missing", [box.missing for box in boxes]),
    ]
    return {
        "parents": [box.parent for box in boxes],
        "names": pack([visible(box.name) for box in boxes]),
        "types": pack([visible(str(layers[index]["type"])) if index >= 0 else "" for index in positions]),
        "layers": pack(positions),
        "operators": pack([visible(box.operator) for box in boxes]),
        "columns": [{**column, "dashes": False} for column in columns],
    }


def _find_layer(path: str, indices: Mapping[str, int]) -> int:
    """Return the index of a layer, or of the nearest around it that has a row; -1 for none."""
    return next((indices[outer] for outer in walk_outwards(path) if outer in indices), -1)


def describe_roofline(report: Report, layers: Sequence[Row], indices: Mapping[str, int]) -> RooflineData:
    """Return what each layer does itself in the forward pass: its FLOPs, the bytes it moves, and its seconds."""
    by_path = sum_forward_work(report.operators or ())
    work_by_index = {indices[path]: work for path, work in by_path.items() if path in indices}
    positions = sorted(work_by_index)
    return {
        "layers": positions,
        "flops": [work_by_index[index].flops for index in positions],
        "bytes": [work_by_index[index].moved_bytes for index in positions],
        "seconds": [make_plain(layers[index].get("own_forward_seconds")) for index in positions],
    }


def add_speeds(layers: Sequence[Row], roofline: RooflineData) -> list[dict[str, Any]]:
    """Return the rows of layers with the numbers that the roofline draws, so that a table has them too.

    They are FLOPs per byte (``own_intensity``) and FLOPs per second (``own_speed``), None where not known.
    """
    rows = [{**row, **dict.fromkeys(SPEEDS)} for row in layers]
    points = zip(roofline["layers"], roofline["flops"], roofline["bytes"], roofline["seconds"], strict=True)
    for index, flops, moved_bytes, seconds in points:
        rows[index]["own_intensity"] = flops / moved_bytes
        if is_number(seconds) and seconds > 0:
            rows[index]["own_speed"] = flops / seconds
    return rows
