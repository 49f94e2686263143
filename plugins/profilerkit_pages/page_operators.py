"""The operators of a report as a page draws them: as a graph, and added up as the points of a roofline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.results.report import Report
from profilerkit.trace.layer_paths import nearest_around
from profilerkit.trace.layer_view import number_kinds

from .columns import SPEEDS, Row, make_plain
from .layer_tree import find_places
from .layer_work import find_shared_times, sum_forward_work
from .page_parts import pack


class Operators(TypedDict):
    """The operators in the order in which they ran, by columns; each column as `pack` returns it."""

    names: Any
    #: The index of the layer that ran each; -1 for none.
    layers: Any
    phases: Any
    #: The steps back to each operator whose result is read; None if they are not known of any operator.
    reads: Any
    #: A number for each *layer*: layers of one number are of the same kind. It is here because the graph of the
    #: operators alone draws such layers as repetitions: a page without operators has no use for it.
    kinds: Any
    macs: Any
    flops: Any


class Roofline(TypedDict):
    """The own work of the layers that move bytes, by columns with a number for each such layer."""

    #: The indices of the layers among all.
    layers: list[int]
    flops: list[int]
    bytes: list[int]
    #: As `make_plain` has them; None if the layer was not timed, or its time includes layers inside.
    seconds: list[Any]


def describe_operators(report: Report, layers: Sequence[Row]) -> Operators | None:
    """Return the operators of a report whose layers have these rows; None for a report without any."""
    operators = report.operators
    if not operators:
        return None
    places, kinds = find_places(layers), number_kinds(layers)
    # Steps back to each operator whose result is read, 0 for a model input: repeated layers have the same steps, which
    # pack well, and other positions.
    steps_back = [
        tuple(0 if source < 0 else index - source for source in row.get("reads", ()))
        for index, row in enumerate(operators)
    ]
    with_layers_inside = {path for path in nearest_around(places).values() if path is not None}

    def list_work(column: str) -> Any:
        # The work of an innermost layer is in the table of layers already; its operators have 0 here.
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


def describe_roofline(report: Report, layers: Sequence[Row]) -> Roofline:
    """Return the own work of the layers in the forward pass, of each that has work."""
    work = sum_forward_work(report.operators or ())
    shared = find_shared_times(report, work)
    drawn = [(index, row, work[row["path"]]) for index, row in enumerate(layers) if row["path"] in work]
    return {
        "layers": [index for index, _, _ in drawn],
        "flops": [layer_work.flops for _, _, layer_work in drawn],
        "bytes": [layer_work.moved_bytes for _, _, layer_work in drawn],
        "seconds": [
            None if row["path"] in shared else make_plain(row.get("own_forward_seconds")) for _, row, _ in drawn
        ],
    }


def add_speeds(layers: Sequence[Row], roofline: Roofline) -> list[dict[str, Any]]:
    """Return the rows of layers with the numbers that the roofline draws, so that a table has them too.

    The numbers are FLOPs per byte (``own_intensity``) and FLOPs per second (``own_speed``), None if not known.
    """
    rows = [{**row, **dict.fromkeys(SPEEDS)} for row in layers]
    points = zip(roofline["layers"], roofline["flops"], roofline["bytes"], roofline["seconds"], strict=True)
    for index, flops, moved_bytes, seconds in points:
        rows[index]["own_intensity"] = flops / moved_bytes  # only layers that move bytes are in a roofline
        if is_number(seconds) and seconds > 0:
            rows[index]["own_speed"] = flops / seconds
    return rows
