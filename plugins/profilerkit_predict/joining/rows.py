"""The rows of a joined profile: each layer's measured time beside its exact counts, and the kernels without a layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from profilerkit.devices.info import DeviceInfo
from profilerkit.devices.products import macs_by_dtype, seconds_at_peak
from profilerkit.trace.layer_paths import count_depth, describe_layers, nearest_around
from profilerkit.trace.layer_table import LayerTable
from profilerkit.trace.records import ModelTrace, OpRecord
from profilerkit.trace.table import Table

from ..prediction.predicting import predict_trace
from .records import RecordedKernel, Recording

#: The columns that are summed over a layer and the layers inside it: measured seconds, seconds by a device's figures,
#: and counts.
_MEASURED = ("seconds", "forward_seconds", "backward_seconds")
_DEVICE_SECONDS = ("peak_seconds", "bound_seconds")
_COUNTS = ("macs", "flops", "bytes")


def list_layers(trace: ModelTrace, recording: Recording, device: DeviceInfo | None, dtype: str | None) -> LayerTable:
    """Return a row for each layer of the trace; ``own_macs`` and the like add up to the trace's counts exactly.

    ``peak_seconds`` are the seconds of the products at the device's peaks, ``bound_seconds`` the seconds of
    `profilerkit.predict` by a data sheet: the greater of products and compulsory bytes, of each layer as if it ran by
    itself. Both are missing without a device. ``mfu`` and ``roofline`` are their shares of the measured seconds.

    Raises `UnknownPeakError` if the device's peak for a dtype of the products is not known.
    """
    seconds = _MEASURED if device is None else (*_MEASURED, *_DEVICE_SECONDS)
    nothing: dict[str, Any] = {**dict.fromkeys(seconds, 0.0), **dict.fromkeys(_COUNTS, 0)}
    own_values = {layer.path: dict(nothing) for layer in trace.layers}
    _add_work(own_values, trace, device, dtype)
    _add_times(own_values, recording.kernels)
    binds: dict[str, str] = {}
    if device is not None and trace.operators:
        for row in predict_trace(trace, device, dtype=dtype).layers:
            own_values[row["path"]]["bound_seconds"] = row["bound_seconds"]
            binds[row["path"]] = row["binds"]
    whole_values = _add_inside(own_values)
    identities = describe_layers({layer.path: layer.type for layer in trace.layers})
    total = sum(kernel.seconds for kernel in recording.kernels)
    has_rates = _has_gradient_layers(recording.kernels)
    return LayerTable(
        [
            {
                **identities[layer.path],
                "calls": layer.call_count,
                **whole_values[layer.path],
                **_compute_shares(whole_values[layer.path], total, has_rates),
                **{f"own_{name}": value for name, value in own_values[layer.path].items()},
                "binds": binds.get(layer.path, ""),
                "remark": recording.remarks.get(layer.path, ""),
            }
            for layer in trace.layers
        ]
    )


def _add_work(
    own_values: Mapping[str, dict[str, Any]], trace: ModelTrace, device: DeviceInfo | None, dtype: str | None
) -> None:
    """Write the work of each layer's operators into its values, with a device also the seconds of their products."""
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
    """Return the sums of each layer with the layers inside it."""
    around = nearest_around(own_values)
    sums = {path: dict(values) for path, values in own_values.items()}
    for path in sorted(own_values, key=count_depth, reverse=True):
        outer = around[path]
        if outer is not None:
            for name, value in sums[path].items():
                sums[outer][name] += value
    return sums


def _has_gradient_layers(kernels: Iterable[RecordedKernel]) -> bool:
    """Return whether the layers of gradients are known; a forward pass has no gradients, so they are.

    If no gradient has a layer, the counts of a training step do not belong to the seconds of its layers: there are no
    rates.
    """
    backward = [kernel.layer is not None for kernel in kernels if kernel.phase == "backward"]
    return not backward or any(backward)


def _compute_shares(values: Mapping[str, Any], total: float, has_rates: bool) -> dict[str, float | None]:
    """Return the ratios of a layer's sums; a rate without any time is None, not 0."""
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
    """Return the kernels whose layer is not known, by name and by the name around them, the longest first."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for kernel in kernels:
        if kernel.layer is None:
            start = {"kernel": kernel.name, "around": kernel.around, "calls": 0.0, "seconds": 0.0}
            row = rows.setdefault((kernel.name, kernel.around), start)
            row["calls"] += kernel.calls
            row["seconds"] += kernel.seconds
    return Table(sorted(rows.values(), key=lambda row: -row["seconds"]))
