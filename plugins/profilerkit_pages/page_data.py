"""What a page draws by itself, as compact values that JSON can hold: trees as parents, tables as columns.

Names come from the model. Here they are made visible; they stay text all the way, since the page never reads them as
markup.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.piping.outcome import is_number
from profilerkit.render.grids import visible
from profilerkit.render.time_grids import machine_facts
from profilerkit.times.measurement import Measurement
from profilerkit.times.percentiles import is_supported
from profilerkit.trace.cost_parts import number_kinds
from profilerkit.trace.layer_paths import nearest_around, walk_outwards

from .layer_work import sum_forward_work
from .page_columns import SPEEDS, describe_column, make_plain
from .page_layers import Row, describe_layers, merge_rows
from .page_pairs import describe_sides
from .page_parts import pack
from .page_tables import list_tables
from .timeline import lay_out_pass

if TYPE_CHECKING:
    from profilerkit.results.comparison import Comparison
    from profilerkit.results.report import Report, StatusRecord

__all__ = ["embed", "list_absent", "page_data"]


def page_data(result: Report | Comparison) -> dict[str, Any]:
    """Return what the page of a report or comparison draws: ``reports``, and of several the ``sides`` of each pair."""
    from profilerkit.results.comparison import Comparison

    if isinstance(result, Comparison):
        sides = [describe_sides(result, index) for index in range(len(result.others))]
        return {"reports": list(map(_describe_report, result.reports)), "sides": sides}
    return {"reports": [_describe_report(result)], "sides": []}


def list_absent(data: Mapping[str, Any]) -> list[str]:
    """Return what the page of these reports has not, with the reasons: a part that is in none of them."""

    def lacks(has: Callable[[Mapping[str, Any]], Any]) -> bool:
        return not any(map(has, data["reports"]))

    absent = []
    if lacks(lambda report: report["layers"]["names"]):
        absent.append("layers and memory (the model was not traced)")
    else:
        if lacks(lambda report: report["memory"]):
            absent.append("memory (the model was not run while it was traced)")
        if lacks(lambda report: (report["operators"] or {}).get("reads")):
            absent.append("graph (what operators read is not known)")
        if lacks(lambda report: any(report["roofline"]["seconds"])):
            absent.append("roofline (layer_times was not measured)")
    if lacks(lambda report: report["timeline"]) and not lacks(lambda report: report["layers"]["names"]):
        absent.append("timeline (operator_table was not measured)")
    if lacks(lambda report: report["measurements"]):
        absent.append("samples (nothing was measured)")
    return absent


def embed(data: Any) -> str:
    """Return values as JSON that can stand inside a script element: nothing in it ends or opens an element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _describe_report(report: Report) -> dict[str, Any]:
    rows = merge_rows(report)
    indices = {row["path"]: index for index, row in enumerate(rows)}
    roofline = _describe_roofline(report, rows, indices)
    _add_speeds(rows, roofline)
    return {
        "name": visible(report.name),
        "backend": visible(report.backend),
        "inputs": visible(report.inputs.removeprefix("ModelInputs")),
        "layers": describe_layers(rows, indices),
        "operators": _describe_operators(report, rows, indices),
        "tables": list(list_tables(report, rows)),
        "timeline": _describe_timeline(report, rows, indices),
        "memory": _describe_memory(report, indices),
        "roofline": roofline,
        "metrics": {visible(record.key): _describe_metric(record) for record in report.statuses.values()},
        "measurements": [_write_measurement(record) for record in report.statuses.values() if _is_measured(record)],
    }


def _describe_memory(report: Report, indices: Mapping[str, int]) -> dict[str, Any] | None:
    memory = report.memory
    if memory is None or not memory.live_bytes:
        return None
    peak = memory.peak_index
    return {
        "weights": memory.weight_bytes,
        "input": memory.input_bytes,
        "live": pack(list(memory.live_bytes)),
        "peak": -1 if peak is None else peak,
        "parts": {visible(name): count for name, count in memory.parts.items() if count},
        "note": visible(memory.note),
        "missing": [visible(line) for line in memory.missing],
    }


def _describe_operators(report: Report, layers: Sequence[Row], indices: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the operators in their order, each with its layer and how many operators before it those are it reads.

    0 stands for an input of the model. The work of an operator is here if its layer has others inside: that of the
    others is the layer's own. ``kinds`` has a number for each layer, which equal layers share.
    """
    rows = report.operators
    if not rows:
        return None
    kinds = number_kinds(layers)
    outer = {path for path in nearest_around(indices).values() if path is not None}
    reads = [tuple(0 if read < 0 else index - read for read in row.get("reads", ())) for index, row in enumerate(rows)]
    return {
        "names": pack([visible(str(row["operator"])) for row in rows]),
        "layers": pack([indices.get(row["layer"], -1) for row in rows]),
        "phases": pack([str(row.get("phase", "forward")) for row in rows]),
        "reads": pack(reads) if any(reads) else None,
        "kinds": pack([kinds[row["path"]] for row in layers]),
        **{key: pack([row[key] if row["layer"] in outer else 0 for row in rows]) for key in ("macs", "flops")},
    }


def _describe_timeline(report: Report, layers: Sequence[Row], indices: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the operators of a pass in their layers, as rows of a tree in the order of time; None without times.

    The type of an operator is that of its layer, which it has the color of.
    """
    boxes = lay_out_pass(report, indices)
    if not boxes:
        return None
    owners = [next((indices[path] for path in walk_outwards(box.layer) if path in indices), -1) for box in boxes]
    columns = [
        *describe_column("seconds", [box.seconds for box in boxes]),
        *describe_column("macs", [box.macs for box in boxes]),
        *describe_column("missing", [box.missing for box in boxes]),
    ]
    return {
        "parents": [box.parent for box in boxes],
        "names": pack([visible(box.name) for box in boxes]),
        "types": pack([visible(str(layers[owner]["type"])) if owner >= 0 else "" for owner in owners]),
        "layers": pack(owners),
        "operators": pack([visible(box.operator) for box in boxes]),
        "columns": [{**column, "dashes": False} for column in columns],
    }


def _describe_roofline(report: Report, rows: Sequence[Row], indices: Mapping[str, int]) -> dict[str, Any]:
    """Return what each layer itself does in the forward pass: its FLOPs, the bytes it moves, and its seconds."""
    work = {indices[path]: done for path, done in sum_forward_work(report.operators or ()).items() if path in indices}
    layers = sorted(work)
    return {
        "layers": layers,
        "flops": [work[index].flops for index in layers],
        "bytes": [work[index].moved_bytes for index in layers],
        "seconds": [make_plain(rows[index].get("own_forward_seconds")) for index in layers],
    }


def _add_speeds(rows: Sequence[dict[str, Any]], roofline: Mapping[str, Any]) -> None:
    """Give the layers the numbers that the roofline draws, so that a table has them too."""
    for row in rows:
        row |= dict.fromkeys(SPEEDS)
    columns = (roofline[key] for key in ("layers", "flops", "bytes", "seconds"))
    for index, flops, moved, seconds in zip(*columns, strict=True):
        rows[index]["own_intensity"] = flops / moved
        if is_number(seconds) and seconds > 0:
            rows[index]["own_speed"] = flops / seconds


def _describe_metric(record: StatusRecord) -> dict[str, Any]:
    """Return a metric as a download has it: a number in its base unit, of a measurement the median; else its text."""
    is_plain = is_number(record.value)
    value = float(record.value) if isinstance(record.value, Measurement) else record.value
    missing = [visible(line) for line in record.missing]
    return {
        "value": make_plain(value) if is_plain else None if value is None else visible(record.shown),
        "unit": visible(record.base_unit) if is_plain else "",
        "completeness": record.completeness.value,
        **({"missing": missing} if missing else {}),
    }


def _is_measured(record: StatusRecord) -> bool:
    return isinstance(record.value, Measurement)


def _write_measurement(record: StatusRecord) -> dict[str, Any]:
    import numpy as np

    value: Measurement = record.value
    with np.errstate(all="ignore"):  # samples may be infinite
        percentiles = {
            str(percent): make_plain(value.percentile(percent)) if is_supported(percent, len(value.samples)) else None
            for percent in (5, 25, 50, 75, 95)
        }
    low, high = value.interval
    return {
        "key": visible(record.key),
        "title": visible(record.friendly_name),
        "unit": visible(record.base_unit),
        "scale": record.scale.value,
        "samples": list(map(make_plain, value.samples)),
        "warmup": list(map(make_plain, value.warmup)),
        "interval": [make_plain(low), make_plain(high)],
        "intervalName": value.interval_name,
        "percentiles": percentiles,
        "conditions": [visible(f"{name} {fact}") for name, fact in machine_facts(value.conditions).items()],
    }
