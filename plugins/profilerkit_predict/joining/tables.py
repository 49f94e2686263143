"""The tables of a joined profile: each layer's measured time beside its exact counts, and how they are written."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from profilerkit.devices.info import DeviceInfo
from profilerkit.devices.products import macs_by_dtype, seconds_at_peak
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.render.grids import Grid
from profilerkit.render.values import share_text
from profilerkit.trace.layer_paths import count_depth, nearest_around
from profilerkit.trace.layer_table import LayerTable
from profilerkit.trace.records import ModelTrace, OpRecord
from profilerkit.trace.table import Table

from ..prediction.predicting import predict_trace
from .records import RecordedKernel, Recording

if TYPE_CHECKING:
    from .result import JoinedProfile

__all__ = ["layer_rows", "list_unattributed", "write_joined"]

#: What is added up over a layer and those inside it: seconds, those by the figures of a device, and counts.
_MEASURED = ("seconds", "forward_seconds", "backward_seconds")
_DEVICE_SECONDS = ("peak_seconds", "bound_seconds")
_COUNTS = ("macs", "flops", "bytes")


def layer_rows(trace: ModelTrace, recording: Recording, device: DeviceInfo | None, dtype: str | None) -> LayerTable:
    """Return a row for each layer of the trace; sums of ``own_macs`` and the like are those of the trace, exactly.

    ``peak_seconds`` are the seconds of the products at the device's peaks, ``bound_seconds`` those of
    `profilerkit.predict` by a data sheet: the greater of products and compulsory bytes, of each layer as if it ran by
    itself. Both are missing without a device. ``mfu`` and ``roofline`` are their shares of the measured seconds.

    Raises `UnknownPeakError` if the device's peak for a dtype of the products is not known.
    """
    own_values = {layer.path: _start_row(device) for layer in trace.layers}
    _add_work(own_values, trace, device, dtype)
    _add_times(own_values, recording.kernels)
    binds: dict[str, str] = {}
    if device is not None and trace.operators:
        for row in predict_trace(trace, device, dtype=dtype).layers:
            own_values[row["path"]]["bound_seconds"] = row["bound_seconds"]
            binds[row["path"]] = row["binds"]
    whole_values = _add_inside(own_values)
    total = sum(kernel.seconds for kernel in recording.kernels)
    has_rates = _has_gradient_layers(recording.kernels)
    with_layers_inside = set(nearest_around(own_values).values())
    return LayerTable(
        [
            {
                "path": layer.path,
                "type": layer.type,
                "depth": layer.depth,
                "is_leaf": layer.path not in with_layers_inside,
                "calls": sum(call.times for call in layer.calls),
                **whole_values[layer.path],
                **_compute_shares(whole_values[layer.path], total, has_rates),
                **{f"own_{name}": value for name, value in own_values[layer.path].items()},
                "binds": binds.get(layer.path, ""),
                "remark": recording.remarks.get(layer.path, ""),
            }
            for layer in trace.layers
        ]
    )


def _start_row(device: DeviceInfo | None) -> dict[str, Any]:
    """Return the sums of a layer in which nothing ran."""
    seconds = _MEASURED if device is None else (*_MEASURED, *_DEVICE_SECONDS)
    return {**dict.fromkeys(seconds, 0.0), **dict.fromkeys(_COUNTS, 0)}


def _add_work(
    own_values: Mapping[str, dict[str, Any]], trace: ModelTrace, device: DeviceInfo | None, dtype: str | None
) -> None:
    """Write what the operators of each layer do into its values, and with a device what their products take."""
    by_layer: defaultdict[str, list[OpRecord]] = defaultdict(list)
    for operator in trace.operators:
        by_layer[operator.layer].append(operator)
    for path, operators in by_layer.items():
        values = own_values[path]
        values["macs"] = sum(operator.macs for operator in operators)
        values["flops"] = sum(operator.flops for operator in operators)
        values["bytes"] = sum(operator.bytes_read + operator.bytes_written for operator in operators)
        if device is not None:
            values["peak_seconds"] = seconds_at_peak(macs_by_dtype(operators), device, dtype)


def _add_times(own_values: Mapping[str, dict[str, Any]], kernels: Iterable[RecordedKernel]) -> None:
    """Add the seconds of kernels to the values of their layers."""
    for kernel in kernels:
        if kernel.layer is not None:
            own_values[kernel.layer]["seconds"] += kernel.seconds
            own_values[kernel.layer][f"{kernel.phase}_seconds"] += kernel.seconds


def _add_inside(own_values: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the sums of each layer with those inside it."""
    around = nearest_around(own_values)
    sums = {path: dict(values) for path, values in own_values.items()}
    for path in sorted(own_values, key=count_depth, reverse=True):
        outer = around[path]
        if outer is not None:
            for name, value in sums[path].items():
                sums[outer][name] += value
    return sums


def _has_gradient_layers(kernels: Iterable[RecordedKernel]) -> bool:
    """Return whether the layers of gradients are known; of a forward pass, which has none, they are.

    Where none of them is, the counts of a step are not those of the seconds in its layers: layers have no rates.
    """
    backward = [kernel.layer is not None for kernel in kernels if kernel.phase == "backward"]
    return not backward or any(backward)


def _compute_shares(values: Mapping[str, Any], total: float, has_rates: bool) -> dict[str, float | None]:
    """Return what the sums of a layer are of others; a rate without any time is None, not 0."""
    seconds = values["seconds"]

    def divide(name: str) -> float | None:
        return values[name] / seconds if seconds and has_rates and name in values else None

    return {
        "share": seconds / total if total else None,
        "flops_per_second": divide("flops"),
        "mfu": divide("peak_seconds"),
        "roofline": divide("bound_seconds"),
    }


def list_unattributed(kernels: Iterable[RecordedKernel]) -> Table:
    """Return the kernels whose layer is not known, by name and by what they ran in, the longest first."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for kernel in kernels:
        if kernel.layer is None:
            start = {"kernel": kernel.name, "around": kernel.around, "calls": 0.0, "seconds": 0.0}
            row = rows.setdefault((kernel.name, kernel.around), start)
            row["calls"] += kernel.calls
            row["seconds"] += kernel.seconds
    return Table(sorted(rows.values(), key=lambda row: -row["seconds"]))


#: The width of notes, in characters.
_WIDTH = 100
#: How many kernels without a layer are listed.
_KERNELS = 5
#: How much of a kernel's name a table shows: with the arguments of its templates some have thousands of characters.
_NAME = 60
#: The columns that need figures of a device, and all columns.
_DEVICE_TITLES = ("MFU", "Roofline")
_TITLES = ("Layer", "Type", "Time", "Share", "MACs", "Bytes", "FLOP/s", *_DEVICE_TITLES)


def write_joined(joined: JoinedProfile, depth: int | None, top: int | None) -> str:
    """Return the table of layers, the kernels without a layer, and notes."""
    from profilerkit.render.console import grid_text

    parts = [grid_text(_draw_layers(joined, depth, top))]
    if joined.unattributed:
        parts.append(grid_text(_draw_unattributed(joined)))
    parts.append("\n".join(textwrap.fill(line, _WIDTH, break_on_hyphens=False) for line in _write_notes(joined)))
    return "\n\n".join(parts)


def _draw_layers(joined: JoinedProfile, depth: int | None, top: int | None) -> Grid:
    """Return the table of layers as a tree, or of those that take longest with their whole paths."""
    rows = list(joined.layers)
    is_tree = top is None
    if top is not None:
        rows = sorted(rows, key=lambda row: -row["own_seconds"])[:top]
    elif depth is not None:
        rows = [row for row in rows if row["depth"] <= depth]
    titles = _TITLES if joined.device is not None else _TITLES[: -len(_DEVICE_TITLES)]
    cells = tuple(tuple(_write_cells(row, is_tree))[: len(titles)] for row in rows)
    title = f"Layers of {joined.name} ({joined.profiler}, {joined.phase})"
    depths = tuple(row["depth"] for row in rows) if is_tree else ()
    return Grid(title, titles, cells, frozenset(range(2, len(_TITLES))), depths)


def _write_cells(row: Mapping[str, Any], is_tree: bool) -> Iterator[str]:
    """Yield the cells of a layer, in the order of the titles; in a tree its path is seen from where it stands."""
    path = row["path"]
    yield (path.rpartition(".")[2] if is_tree else path) or "(model)"
    yield row["type"]
    # Work without time of its own is in another layer's kernel; that is no zero.
    yield _format_seconds(row["seconds"]) if row["seconds"] or not row["flops"] else "-"
    yield "-" if row["share"] is None else share_text(row["share"])
    yield str(scale_value(row["macs"], "", Scale.SI))
    yield str(scale_value(row["bytes"], "B", Scale.IEC))
    rate = row["flops_per_second"]
    yield "-" if rate is None else str(scale_value(rate, "", Scale.SI))
    yield _format_share(row["mfu"] if row["macs"] else None)
    yield f"{_format_share(row['roofline'] or None)} {row['binds']}".rstrip()


def _format_share(share: float | None) -> str:
    """Return a share as a percentage; above 1 it is marked, and a note says why."""
    return "-" if share is None else f"{share_text(share)}{' (!)' if share > 1 else ''}"


def _draw_unattributed(joined: JoinedProfile) -> Grid:
    """Return the table of the kernels without a layer that take longest."""
    rows = tuple(
        (
            _shorten(row["kernel"]),
            _shorten(row["around"] or "-"),
            f"{row['calls']:.4g}",
            _format_seconds(row["seconds"]),
        )
        for row in joined.unattributed[:_KERNELS]
    )
    more = len(joined.unattributed) - len(rows)
    title = "Kernels without a layer" + (f", the longest {len(rows)} of {len(rows) + more}" if more else "")
    return Grid(title, ("Kernel", "In", "Calls", "Time"), rows, frozenset((2, 3)))


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _write_notes(joined: JoinedProfile) -> Iterator[str]:
    """Yield the lines below the tables: the pass as a whole, what is in no layer, and what to know of the numbers."""
    recording = joined.recording
    whole, inside, between = map(_format_seconds, (joined.pass_seconds, joined.seconds, recording.between))
    passes = len(recording.passes)
    yield f"One pass takes {whole} (mean of {passes}): {inside} in kernels, {between} between them."
    where = f" on {recording.device}" if recording.device else " on a device" if recording.on_device else " on the host"
    yield f"Kernels ran{where}; layers are known by {recording.by}."
    share = f"{share_text(joined.unattributed_share)} of the kernels' time"
    yield f"Without a layer: {_format_seconds(joined.unattributed_seconds)}, {share}."
    if joined.mfu is not None:
        yield f"MFU of the whole pass: {_format_share(joined.mfu)}."
    for path, remark in recording.remarks.items():
        yield f"{path or '(model)'} {remark}."
    yield from (f"{note[:1].upper()}{note[1:]}." for note in joined.notes)


def _format_seconds(value: float) -> str:
    return str(scale_value(value, "s", Scale.TIME))
