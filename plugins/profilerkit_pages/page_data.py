"""What a page draws by itself, as compact values that JSON can hold: trees as parents, tables as columns.

Names come from the model. Here they are made visible; they stay text all the way, since the page never reads them as
markup.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.piping.outcome import is_number
from profilerkit.piping.quantity import Scale
from profilerkit.piping.titles import write_title
from profilerkit.render.bounds import write_row_value
from profilerkit.render.grids import visible
from profilerkit.render.time_grids import machine_facts
from profilerkit.times.measurement import Measurement
from profilerkit.times.percentiles import is_supported
from profilerkit.trace.bounds import WORK
from profilerkit.trace.layer_paths import count_depth, nearest_around, walk_outwards
from profilerkit.trace.operator_rows import TRAFFIC, read_work
from profilerkit.trace.records import LayerTable
from profilerkit.trace.table import Table

from .page_parts import pack
from .timeline import lay_out_pass

if TYPE_CHECKING:
    from profilerkit.results.comparison import Comparison
    from profilerkit.results.report import Report, StatusRecord

__all__ = ["embed", "list_absent", "page_data"]

Row = Mapping[str, Any]

#: Columns from which the page builds its tree of layers.
_TREE_COLUMNS = {"path", "type", "depth", "is_leaf"}
#: Columns that are shown at first, where a report has them. The others are there to be chosen.
_AT_FIRST = ("output_shapes", "calls", "params", "macs", "flops", "forward_seconds", "backward_seconds", "missing")
#: Columns of numbers that do not add up over the layers inside, so that there is no share of a whole.
_NO_SHARE = ("calls", "order", "layers", "own_", "overhead", "share", "flops_per_second", "batch_size", "samples")
#: What is worked out of several columns, and does not add up.
_SPEEDS = ("own_intensity", "own_speed")
_WORDS = {
    "missing": "Left out",
    "seconds": "Time",
    "forward_seconds": "Forward",
    "backward_seconds": "Backward",
    "output_shapes": "Output shape",
    "input_shapes": "Input shape",
    "own_intensity": "Own FLOPs/B",
    "own_speed": "Own FLOP/s",
}
#: Columns in which the layers of two models are compared.
_COMPARED = ("params", "macs", "flops", "own_macs", "own_flops", "forward_seconds", "backward_seconds")
_COMPARED_AT_FIRST = ("params", "macs", "forward_seconds")


def page_data(result: Report | Comparison) -> dict[str, Any]:
    """Return what the page of a report or comparison draws: ``reports``, and of several the ``sides`` of each pair."""
    from profilerkit.results.comparison import Comparison

    if isinstance(result, Comparison):
        sides = [_describe_sides(result, index) for index in range(len(result.others))]
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
    rows = _merge_rows(report)
    indices = {row["path"]: index for index, row in enumerate(rows)}
    roofline = _describe_roofline(report, rows, indices)
    _add_speeds(rows, roofline)
    return {
        "name": visible(report.name),
        "backend": visible(report.backend),
        "inputs": visible(report.inputs.removeprefix("ModelInputs")),
        "layers": _describe_layers(rows, indices),
        "operators": _describe_operators(report, rows, indices),
        "tables": list(_list_tables(report, rows)),
        "timeline": _describe_timeline(report, rows, indices),
        "memory": _describe_memory(report, indices),
        "roofline": roofline,
        "metrics": {visible(record.key): _describe_metric(record) for record in report.statuses.values()},
        "measurements": [_write_measurement(record) for record in report.statuses.values() if _is_measured(record)],
    }


def _merge_rows(report: Report) -> list[dict[str, Any]]:
    """Return the rows of the layers with what was measured of each, and the bytes that its operators move."""
    measured = [record.value for record in report.statuses.values() if _is_by_layer(record.value)]
    base = report.layers if report.layers is not None else (measured or [LayerTable(())])[0]
    by_path = [{row["path"]: row for row in table} for table in measured]
    moved = {} if base and "bytes_read" in base[0] else _sum_moved_bytes(report, base)
    merged = []
    for row in base:
        extra: dict[str, Any] = {}
        for table in by_path:
            extra |= table.get(row["path"], {})
        whole: dict[str, Any] = {**extra, **row}
        if row["path"] in moved:
            whole["bytes_moved"] = moved[row["path"]]
        elif is_number(whole.get("bytes_read")) and is_number(whole.get("bytes_written")):
            whole["bytes_moved"] = whole["bytes_read"] + whole["bytes_written"]
        merged.append(whole)
    return merged


def _is_by_layer(value: Any) -> bool:
    """Say whether a value is a table with one row for each layer: not for each call of one, nor for each type."""
    if not isinstance(value, LayerTable):
        return False
    paths = [row.get("path") for row in value]
    return None not in paths and len(set(paths)) == len(paths)


def _sum_moved_bytes(report: Report, layers: Iterable[Row]) -> dict[str, int]:
    """Return the bytes read and written by the operators of each layer, the layers inside included."""
    if not report.operators or "bytes_read" not in report.operators[0]:
        return {}
    moved: dict[str, int] = {row["path"]: 0 for row in layers}
    for op in report.operators:
        if op["layer"] in moved:
            moved[op["layer"]] += op["bytes_read"] + op["bytes_written"]
    around = nearest_around(moved)
    for path in sorted(moved, key=count_depth, reverse=True):
        outer = around[path]
        if outer is not None:
            moved[outer] += moved[path]
    return moved


def _describe_layers(rows: Sequence[Row], indices: Mapping[str, int]) -> dict[str, Any]:
    nearest = nearest_around(indices)
    around = [nearest[row["path"]] for row in rows]
    parents = [-1 if path is None else indices[path] for path in around]
    names = [_write_name(row["path"], path) for row, path in zip(rows, around, strict=True)]
    keys = list(
        dict.fromkeys(key for row in rows[:1] for key in row if key not in _TREE_COLUMNS and "_share" not in key)
    )
    columns = [
        {**column, **_find_signs(key, rows)}
        for key in keys
        for column in _describe_column(key, [row.get(key) for row in rows])
    ]
    columns.sort(key=lambda column: _AT_FIRST.index(column["key"]) if column["key"] in _AT_FIRST else len(_AT_FIRST))
    return {
        "parents": parents,
        "names": pack(names),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "columns": columns,
    }


def _write_name(path: str, around: str | None) -> str:
    """Return what a layer is called inside the layer around it."""
    return visible(path[len(around) + 1 :] if around else path)


def _describe_column(key: str, values: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield a column with what the page must know to show it; none where there is nothing in it."""
    if all(value is None or value == "" or value == () for value in values):
        return
    numeric = all(value is None or is_number(value) for value in values)
    unit, scale = _find_unit(key)
    yield {
        "key": key,
        "title": _write_title(key),
        "unit": unit,
        "scale": scale.value,
        "numeric": numeric,
        "share": numeric and not key.startswith(_NO_SHARE),
        "shown": key in _AT_FIRST and any(values),
        "dashes": True,
        "values": pack([_make_plain(value) if numeric else _write_text(value) for value in values]),
    }


def _find_signs(key: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Return by the index of a row what a count that is a bound is shown as: "≥ " or another sign, and a number."""
    written = {index: write_row_value(row, key) for index, row in enumerate(rows) if f"{key}_low" in row}
    signed = {index: [sign, number] for index, (sign, number) in written.items() if sign}
    return {"signed": signed} if signed else {}


def _write_title(key: str) -> str:
    return _WORDS.get(key) or visible(write_title(key.removesuffix("_seconds")))


def _find_unit(key: str) -> tuple[str, Scale]:
    if key == "seconds" or key.endswith("_seconds"):
        return "s", Scale.TIME
    if key == "own_intensity":
        return "", Scale.NONE
    return ("B", Scale.IEC) if "bytes" in key else ("", Scale.SI)


def _make_plain(value: Any) -> Any:
    """Return a number as JSON can hold it, and as text what JSON has no number for."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _write_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return visible(", ".join(f"{key} {item}" for key, item in value.items()))
    if isinstance(value, (tuple, list)):
        return visible(", ".join(str(list(item)) if isinstance(item, (tuple, list)) else str(item) for item in value))
    return visible(str(value))


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
    others is the layer's own.
    """
    rows = report.operators
    if not rows:
        return None
    outer = {path for path in nearest_around(indices).values() if path is not None}
    reads = [tuple(0 if read < 0 else index - read for read in row.get("reads", ())) for index, row in enumerate(rows)]
    return {
        "names": pack([visible(str(row["operator"])) for row in rows]),
        "layers": pack([indices.get(row["layer"], -1) for row in rows]),
        "phases": pack([str(row.get("phase", "forward")) for row in rows]),
        "reads": pack(reads) if any(reads) else None,
        **{key: pack([row[key] if row["layer"] in outer else 0 for row in rows]) for key in ("macs", "flops")},
    }


def _list_tables(report: Report, layers: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the tables beside that of the layers: layers by what they take themselves, types, operators, metrics."""
    root = layers[0] if layers else {}
    own_keys = {key.removeprefix("own_"): key for key in root if key.startswith("own_") and key not in _SPEEDS}
    takers = [row for row in layers if any((row.get(key) or 0) > 0 for key in own_keys.values())]
    if takers:
        named = ({"layer": row["path"] or "(model)", "type": row["type"], **_take_own(row, own_keys)} for row in takers)
        by_layer = _describe_table("By layer", "layer", "layer", sorted(named, key=_rank), root)
        yield {**by_layer, "lead": "Each layer without the layers inside it."}
    types = _add_up(layers, "type", own_keys, "layers")
    if len(types) > 1:
        yield _describe_table("By type", "type", "type", types, root)
    operators = report.operators or ()
    work = {key: key for key in (*WORK, *TRAFFIC) if operators and key in operators[0]}
    totals = _add_up(operators, "operator", work, "calls")
    if totals:
        yield _describe_table("By operator", "operator", "operator", totals)
    for record in report.statuses.values():
        if isinstance(record.value, Table) and record.value and not _is_by_layer(record.value):
            yield _describe_table(visible(record.friendly_name), record.value.columns[0], "row", record.value)


def _add_up(rows: Iterable[Row], by: str, columns: Mapping[str, str], count: str) -> list[dict[str, Any]]:
    """Return a row for each value of a column, with how many rows have it, and the sums of others, if all are known."""
    sums: dict[str, dict[str, Any]] = {}
    for row in rows:
        total = sums.setdefault(str(row[by]), {by: str(row[by]), count: 0, **dict.fromkeys(columns, 0)})
        total[count] += 1
        for name, key in columns.items():
            value = read_work(row, key)
            is_known = total[name] is not None and is_number(value) and math.isfinite(value)
            total[name] = total[name] + value if is_known else None
    return sorted(sums.values(), key=_rank)


def _take_own(row: Row, own_keys: Mapping[str, str]) -> dict[str, Any]:
    """Return what a layer takes itself, without the layers inside, by the names of the columns that include them."""
    return {key: row.get(own_key) for key, own_key in own_keys.items()}


def _rank(row: Row) -> list[float]:
    """Return what rows are sorted by: most time first, or where there is none most work."""
    return [-(row.get(key) or 0) for key in ("forward_seconds", "macs", "flops")]


def _describe_table(title: str, name: str, thing: str, rows: Sequence[Row], whole: Row | None = None) -> dict[str, Any]:
    """Return a table of the page, whose rows are called by a column's values; ``whole`` has what shares are of."""
    keys = [key for key in rows[0] if key != name]
    columns = [column for key in keys for column in _describe_column(key, [row.get(key) for row in rows])]
    names = pack([visible(str(row.get(name))) for row in rows])
    for column in columns:
        column["shown"] = not column["key"].startswith("bytes_")
        total = whole.get(column["key"]) if whole else None
        if column["share"] and total is not None and is_number(total) and total > 0:
            column["whole"] = _make_plain(total)
    return {"title": title, "thing": thing, "heading": _write_title(name), "rows": {"names": names, "columns": columns}}


def _describe_timeline(report: Report, layers: Sequence[Row], indices: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the operators of a pass in their layers, as rows of a tree in the order of time; None without times.

    The type of an operator is that of its layer, which it has the color of.
    """
    boxes = lay_out_pass(report, indices)
    if not boxes:
        return None
    owners = [next((indices[path] for path in walk_outwards(box.layer) if path in indices), -1) for box in boxes]
    columns = [
        *_describe_column("seconds", [box.seconds for box in boxes]),
        *_describe_column("macs", [box.macs for box in boxes]),
        *_describe_column("missing", [box.missing for box in boxes]),
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
    work: dict[int, list[int]] = {}
    for op in report.operators if report.operators is not None else ():
        if op["layer"] in indices and op.get("phase", "forward") == "forward" and "bytes_read" in op:
            sums = work.setdefault(indices[op["layer"]], [0, 0])
            sums[0] += op["flops"]
            sums[1] += op["bytes_read"] + op["bytes_written"]
    layers = [index for index, (flops, moved) in sorted(work.items()) if flops and moved]
    return {
        "layers": layers,
        "flops": [work[index][0] for index in layers],
        "bytes": [work[index][1] for index in layers],
        "seconds": [_make_plain(rows[index].get("own_forward_seconds")) for index in layers],
    }


def _add_speeds(rows: Sequence[dict[str, Any]], roofline: Mapping[str, Any]) -> None:
    """Give the layers the numbers that the roofline draws, so that a table has them too."""
    for row in rows:
        row |= dict.fromkeys(_SPEEDS)
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
        "value": _make_plain(value) if is_plain else None if value is None else visible(record.shown),
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
            str(percent): _make_plain(value.percentile(percent)) if is_supported(percent, len(value.samples)) else None
            for percent in (5, 25, 50, 75, 95)
        }
    low, high = value.interval
    return {
        "key": visible(record.key),
        "title": visible(record.friendly_name),
        "unit": visible(record.base_unit),
        "scale": record.scale.value,
        "samples": list(map(_make_plain, value.samples)),
        "warmup": list(map(_make_plain, value.warmup)),
        "interval": [_make_plain(low), _make_plain(high)],
        "intervalName": value.interval_name,
        "percentiles": percentiles,
        "conditions": [visible(f"{name} {fact}") for name, fact in machine_facts(value.conditions).items()],
    }


def _describe_sides(comparison: Comparison, which: int) -> dict[str, Any] | None:
    """Return the layers of the reference and of another model in one tree, or None where one has no layers."""
    reference, other = comparison.reference, comparison.others[which]
    if reference.layers is None or other.layers is None:
        return None
    rows = list(comparison.layers(which))
    parents, names = _place_in_tree(rows)
    reference_rows, other_rows = ({row["path"]: row for row in _merge_rows(report)} for report in (reference, other))
    columns: list[dict[str, Any]] = []
    for key in _COMPARED:
        first = [None if row["change"] == "added" else reference_rows[row["path"]].get(key) for row in rows]
        second = [other_rows[row["other_path"]].get(key) if row["other_path"] is not None else None for row in rows]
        columns += _describe_pair(key, first, second, (reference.name, other.name))
    return {
        "name": visible(other.name),
        "parents": parents,
        "names": pack(names),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "changes": pack([row["change"] for row in rows]),
        "columns": columns,
    }


def _place_in_tree(rows: Sequence[Row]) -> tuple[list[int], list[str]]:
    """Return of each layer of two models the row around it, -1 for none, and its name, with that in the other model.

    A layer that the other model alone has lies in a layer of the other, all others in one of the reference.
    """
    in_reference = {row["path"]: index for index, row in enumerate(rows) if row["change"] != "added"}
    in_other = {row["other_path"]: index for index, row in enumerate(rows) if row["other_path"] is not None}
    around_reference, around_other = nearest_around(in_reference), nearest_around(in_other)
    parents, names = [], []
    for row in rows:
        is_added = row["change"] == "added"
        around = (around_other if is_added else around_reference)[row["path"]]
        parents.append(-1 if around is None else (in_other if is_added else in_reference)[around])
        name = _write_name(row["path"], around)
        has_moved = not is_added and row["other_path"] not in (None, row["path"])
        names.append(f"{name} / {visible(row['other_path'].rpartition('.')[2])}" if has_moved else name)
    return parents, names


def _describe_pair(
    key: str, first: Sequence[Any], second: Sequence[Any], names: tuple[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the columns of one value of two models, and of their difference."""
    if all(value is None for value in first) or all(value is None for value in second):
        return
    differences = [None if one is None or two is None else two - one for one, two in zip(first, second, strict=True)]
    for suffix, values, label in (
        ("", first, names[0]),
        ("_other", second, names[1]),
        ("_difference", differences, "change"),
    ):
        for column in _describe_column(key, values):
            shown = key in _COMPARED_AT_FIRST
            title = f"{column['title']}, {visible(label)}"
            more = {"title": title, "share": False, "shown": shown, "suffix": suffix, "dashes": suffix != "_difference"}
            yield {**column, "key": f"{key}{suffix}", **more}
