"""The rows of a joined profile: each layer's measured time beside its exact counts, and what a device could do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profilerkit.devices.info import DeviceInfo
from profilerkit.devices.products import macs_by_dtype, seconds_at_peak
from profilerkit.trace.layer_paths import nearest_around
from profilerkit.trace.layer_table import LayerTable
from profilerkit.trace.records import ModelTrace, OpRecord
from profilerkit.trace.table import Table

from ..prediction.predicting import predict_trace
from .records import RecordedKernel, Recording

__all__ = ["layer_rows", "list_unattributed"]

#: What is added up over a layer and those inside it.
_SECONDS = ("seconds", "forward_seconds", "backward_seconds", "peak_seconds", "bound_seconds")
_COUNTS = ("macs", "flops", "bytes")


def layer_rows(trace: ModelTrace, recording: Recording, device: DeviceInfo | None, dtype: str | None) -> LayerTable:
    """Return a row for each layer of the trace; sums of ``own_macs`` and the like are those of the trace, exactly.

    ``peak_seconds`` are the seconds of the products at the device's peaks, ``bound_seconds`` those of
    `profilerkit.predict` by a data sheet: the greater of products and compulsory bytes, of each layer as if it ran by
    itself. Both are None without a device. ``mfu`` and ``roofline`` are their shares of the measured seconds.

    Raises `UnknownPeakError` if the device's peak for a dtype of the products is not known.
    """
    nothing: dict[str, Any] = {**dict.fromkeys(_SECONDS, 0.0), **dict.fromkeys(_COUNTS, 0)}
    exclusive = {layer.path: dict(nothing) for layer in trace.layers}
    for path, counts in _counts(trace, device, dtype).items():
        exclusive[path].update(counts)
    for kernel in recording.kernels:
        if kernel.layer is not None:
            exclusive[kernel.layer]["seconds"] += kernel.seconds
            exclusive[kernel.layer][f"{kernel.phase}_seconds"] += kernel.seconds
    binds = {}
    if device is not None and trace.operators:
        for row in predict_trace(trace, device, dtype=dtype).layers:
            exclusive[row["path"]]["bound_seconds"] = row["bound_seconds"]
            binds[row["path"]] = row["binds"]
    whole = _inclusive(exclusive)
    total = sum(kernel.seconds for kernel in recording.kernels)
    comparable = _gradients_have_layers(recording.kernels)
    around = set(nearest_around(exclusive).values())
    return LayerTable(
        [
            {
                "path": layer.path,
                "type": layer.type,
                "depth": layer.depth,
                "is_leaf": layer.path not in around,
                "calls": sum(call.times for call in layer.calls),
                **_compute_columns(whole[layer.path], total, device is not None, comparable),
                **{
                    f"own_{name}": value
                    for name, value in exclusive[layer.path].items()
                    if device or not _of_device(name)
                },
                "binds": binds.get(layer.path, ""),
                "remark": recording.remarks.get(layer.path, ""),
            }
            for layer in trace.layers
        ]
    )


def _counts(trace: ModelTrace, device: DeviceInfo | None, dtype: str | None) -> dict[str, dict[str, Any]]:
    by_layer: defaultdict[str, list[OpRecord]] = defaultdict(list)
    for operator in trace.operators:
        by_layer[operator.layer].append(operator)
    return {
        path: {
            "macs": sum(op.macs for op in operators),
            "flops": sum(op.flops for op in operators),
            "bytes": sum(op.bytes_read + op.bytes_written for op in operators),
            "peak_seconds": 0.0 if device is None else seconds_at_peak(macs_by_dtype(operators), device, dtype),
        }
        for path, operators in by_layer.items()
    }


def _of_device(name: str) -> bool:
    return name in ("peak_seconds", "bound_seconds")


def _inclusive(exclusive: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the sums of each layer with those inside it."""
    around = nearest_around(exclusive)
    whole = {path: dict(values) for path, values in exclusive.items()}
    for path in sorted(exclusive, key=lambda path: -path.count(".") - bool(path)):
        outer = around[path]
        if outer is not None:
            for name, value in whole[path].items():
                whole[outer][name] += value
    return whole


def _gradients_have_layers(kernels: Iterable[RecordedKernel]) -> bool:
    """Whether the layers of gradients are known; if of none, counts of a step are not those of the layers' seconds."""
    backward = [kernel.layer is not None for kernel in kernels if kernel.phase == "backward"]
    return not backward or any(backward)


def _compute_columns(values: Mapping[str, Any], total: float, has_device: bool, comparable: bool) -> dict[str, Any]:
    """Return the columns of a layer with those inside it; a rate without any time is None, not 0.

    Nor has a layer a rate if its counts are not those of its seconds (`comparable` is False).
    """
    seconds = values["seconds"]
    per_second = values["flops"] / seconds if seconds and comparable else None
    shares: dict[str, float | None] = {"mfu": None, "roofline": None}
    if has_device and seconds and comparable:
        shares = {"mfu": values["peak_seconds"] / seconds, "roofline": values["bound_seconds"] / seconds}
    counts = {name: value for name, value in values.items() if has_device or not _of_device(name)}
    return {**counts, "share": seconds / total if total else None, "flops_per_second": per_second, **shares}


def list_unattributed(kernels: Iterable[RecordedKernel]) -> Table:
    """Return the kernels whose layer is not known, by name and by what they ran in, the longest first."""
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    calls: defaultdict[tuple[str, str], float] = defaultdict(float)
    for kernel in kernels:
        if kernel.layer is None:
            seconds[kernel.name, kernel.around] += kernel.seconds
            calls[kernel.name, kernel.around] += kernel.calls
    keys: Sequence[tuple[str, str]] = sorted(seconds, key=lambda key: -seconds[key])
    return Table([{"kernel": key[0], "around": key[1], "calls": calls[key], "seconds": seconds[key]} for key in keys])
