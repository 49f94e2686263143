"""Predicted time of a trace: a bound by the data sheet, and with a calibration an estimate in an interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from profilerkit.devices.info import DeviceInfo, dtype_name
from profilerkit.devices.products import find_dtype
from profilerkit.errors import ArgumentError
from profilerkit.trace.layer_table import LayerTable
from profilerkit.trace.records import ModelTrace, OpRecord

from .bound import Bound, compulsory_bytes, compute_bound, count_bytes
from .calibration import Calibration, name_phase
from .cases import CompiledSeconds
from .regions import Region, find_family, find_kind, find_regions, find_shape, is_free, with_whole_recurrences
from .text import write_notes, write_prediction

__all__ = ["NothingToPredictError", "Prediction", "predict_trace"]

#: A region that takes no more than so many times what the host takes for any operator is bound by that.
_MOSTLY_DISPATCH = 1.5


class NothingToPredictError(ArgumentError):
    """The model computes nothing, as one layer that returns its input: there is no time to predict."""


@dataclass(frozen=True)
class Prediction:
    """What a pass or a training step will take on a device. It is computed, never measured.

    Attributes:
        device: The device.
        bound: The least seconds, by peaks and bandwidth.
        estimate: Seconds by the calibration; None with a data sheet only.
        low: The lower end of the interval; the bound with a data sheet only.
        high: The upper end; None if it is not known.
        binds: What decides the time: "products", "traffic" or "dispatch".
        device_seconds: The estimate of the device's own time, None without a calibration.
        host_seconds: The estimate of what the host takes besides; None without one. Of a compiled graph it is that of
            the call of the graph.
        layers: A row for each layer: ``estimate_seconds`` and ``bound_seconds`` of its own operators, what ``binds``.
        phase: "forward" or "training".
        notes: What a reader must know besides.
    """

    device: DeviceInfo
    bound: Bound
    low: float
    binds: str
    layers: LayerTable
    phase: str
    notes: tuple[str, ...] = ()
    estimate: float | None = None
    high: float | None = None
    device_seconds: float | None = None
    host_seconds: float | None = None

    @property
    def tier(self) -> str:
        """What it is made by: "data sheet" or "calibrated"; the two are never mixed."""
        return "data sheet" if self.estimate is None else "calibrated"

    @property
    def seconds(self) -> float:
        """The estimate if there is one, otherwise the bound."""
        return self.bound.seconds if self.estimate is None else self.estimate

    def __str__(self) -> str:
        """Return the time, what binds it, the layers that take most, and the notes, as text."""
        return write_prediction(self)


@dataclass(frozen=True, slots=True)
class _Timed:
    """One region with its seconds, what binds it, and what the host takes to hand its operators over."""

    region: Region
    seconds: float
    binds: str
    host_seconds: float


def predict_trace(
    trace: ModelTrace, device: DeviceInfo, *, dtype: str | None = None, compiled: bool = False
) -> Prediction:
    """Return the predicted time of a trace, forward or of a training step, on a device.

    With a data sheet only it is a bound: ``max(products at peak, compulsory bytes at bandwidth)``. With a calibration
    it is an estimate too: the sum over regions of operators of their time by the tables, and what the host takes; on a
    device of its own (a GPU) the longer of both. A compiled graph has fused regions, and of the host one call.

    Args:
        trace: A trace of a forward pass or of a training step.
        device: The device, calibrated or not.
        dtype: The dtype that all products run in, if it is another one than in the trace.
        compiled: Whether a compiler fuses operators.

    Raises:
        UnknownPeakError: The device's peak for a dtype of the model's products is not known.
        NothingToPredictError: The trace has no operators: the model computes nothing.
        ArgumentError: The model raised in its trace.
    """
    if trace.failure is not None:
        raise ArgumentError("the model raised in its trace, so that there is no time to predict") from trace.failure
    if not trace.operators:
        raise NothingToPredictError("the model computes nothing: its trace has no operators, so no time is predicted")
    calibration = Calibration.of(device)
    phase = "training" if any(operator.phase == "backward" for operator in trace.operators) else "forward"
    if calibration is None:
        bound = compute_bound(trace, device, dtype)
        layers, notes = _compute_layer_bounds(trace, device, dtype), write_notes(trace, bound, device, dtype)
        return Prediction(device, bound, bound.seconds, bound.binds, layers, phase, notes)
    return _estimate(trace, device, calibration, phase, dtype, compiled)


def _estimate(
    trace: ModelTrace, device: DeviceInfo, calibration: Calibration, phase: str, dtype: str | None, compiled: bool
) -> Prediction:
    """Return the prediction by a calibration."""
    bandwidth = calibration.best_bandwidth(compulsory_bytes(trace))
    bound = compute_bound(trace, device, dtype, bandwidth)
    operators = tuple(with_whole_recurrences(trace))
    regions = find_regions(operators, fused=compiled)
    timed = [_time_region(region, calibration, device, dtype, compiled) for region in regions]
    device_seconds = sum(region.seconds for region in timed)
    host = _host_seconds(trace, operators, calibration, phase, compiled)
    if device.kind != "cpu" and not compiled:
        host += sum(one_region.host_seconds for one_region in timed)
    total = device_seconds + host if device.kind == "cpu" else max(device_seconds, host)
    total = max(total, bound.seconds)  # networks are corrected by what they took, however the tables add up
    middle, low, high = calibration.correction(name_phase(phase, compiled))
    estimate = max(total * middle, bound.seconds)
    return Prediction(
        device,
        bound,
        estimate=estimate,
        low=max(min(total * low, estimate), bound.seconds),
        high=None if trace.uncounted else estimate * high / middle,  # as wide where the bound is above the middle
        binds="dispatch" if host > device_seconds else _find_binding(timed),
        device_seconds=device_seconds,
        host_seconds=host,
        layers=_sum_layers(trace, timed, calibration, device, dtype),
        phase=phase,
        notes=write_notes(trace, bound, device, dtype, calibration, compiled=compiled),
    )


def _host_seconds(
    trace: ModelTrace, operators: Sequence[OpRecord], calibration: Calibration, phase: str, compiled: bool
) -> float:
    """Return what the host takes besides the operators.

    Eager, that is calls of layers, views of the forward pass, the start of a backward pass, and automatic
    differentiation for each of its operators, whose views are in that. Compiled, it is the call of a graph.
    """
    host = calibration.host
    if compiled:
        return _graph_seconds(trace, host.compiled, phase) if host.compiled is not None else 0.0
    calls = sum(len(layer.calls) for layer in trace.layers)
    views = sum(is_free(operator) for operator in operators if operator.phase == "forward")
    gradients = sum(not is_free(operator) for operator in operators if operator.phase == "backward")
    start = host.backward_call if gradients else 0.0
    return calls * host.layer_call + views * host.view_call + gradients * host.gradient_call + start


def _graph_seconds(trace: ModelTrace, host: CompiledSeconds, phase: str) -> float:
    """Return what the call of one graph, or of those of a training step, takes the host, with the weights."""
    weights = trace.parameters
    if phase == "forward":
        return host.graph_call + len(weights) * host.graph_weight
    return host.step_call + sum(1 for weight in weights if weight.trainable) * host.step_weight


def _time_region(
    region: Region, calibration: Calibration, device: DeviceInfo, dtype: str | None, compiled: bool = False
) -> _Timed:
    """Return the seconds of a region by the tables: of a fused one, those of the slowest of its operators' families.

    A generated kernel starts in the time that was measured for such, where it was.
    """
    alone = [_look_up(operator, region.moved_bytes, calibration, device, dtype) for operator in region.operators]
    slowest = max(alone, key=lambda timed: timed.seconds - timed.start)
    head, seconds = region.head, slowest.seconds
    host = sum(timed.host_seconds for timed in alone)
    if compiled and not head.macs and calibration.host.compiled is not None:
        seconds += calibration.host.compiled.kernel_call - slowest.start
    rate = calibration.best_bandwidth(region.moved_bytes) or float("inf")
    if seconds <= _MOSTLY_DISPATCH * calibration.dispatch:
        return _Timed(region, seconds, "dispatch", host)
    peak = calibration.peak(_find_dtype(head, dtype)) or float("inf")
    is_products = bool(head.macs) and 2.0 * head.macs / peak >= region.moved_bytes / rate
    return _Timed(region, seconds, "products" if is_products else "traffic", host)


class _TableTime(NamedTuple):
    """What a table says of an operator: its seconds, how many are the start of any call, and those of the host."""

    seconds: float
    start: float
    host_seconds: float


def _look_up(
    operator: OpRecord, moved_bytes: float, calibration: Calibration, device: DeviceInfo, dtype: str | None
) -> _TableTime:
    """Return the time of an operator by the table of its kind, or by that of plain products or traffic in float32."""
    name = _find_dtype(operator, dtype)
    sizes: tuple[float, ...]
    if operator.macs:
        kind, plain_kind, sizes = find_kind(operator), "product", find_shape(operator)
        work, peak = 2.0 * operator.macs, calibration.peak(name) or 0.0
    else:
        kind, plain_kind, sizes = find_family(operator), "element-wise", (max(1.0, moved_bytes),)
        work, peak = sizes[0], float("inf")
    table = calibration.table(kind, name) or calibration.table(plain_kind, "float32")
    if table is None or not peak:
        raise ArgumentError(
            f"the calibration of {device.name} has no table for {operator.operator} in {name}; make it with --dtype "
            f"{name}"
        )
    return _TableTime(table.seconds(sizes, max(work, 1.0), peak), table.least_seconds, table.find_host_seconds(sizes))


def _find_dtype(operator: OpRecord, dtype: str | None) -> str:
    """Return the dtype whose tables an operator is looked up in; for work on integers that is not known, float32."""
    if dtype is not None and operator.macs:
        return dtype_name(dtype)
    name = find_dtype(operator)
    return "float32" if name.startswith(("int", "uint", "bool")) and not operator.macs else name


def _find_binding(timed: Iterable[_Timed]) -> str:
    """Return what binds the regions that take most seconds together: "products", "traffic" or "dispatch"."""
    totals: dict[str, float] = {}
    for region in timed:
        totals[region.binds] = totals.get(region.binds, 0.0) + region.seconds
    return max(totals, key=lambda name: totals[name]) if totals else "dispatch"


def _sum_layers(
    trace: ModelTrace, timed: list[_Timed], calibration: Calibration, device: DeviceInfo, dtype: str | None
) -> LayerTable:
    by_layer: dict[str, list[_Timed]] = {}
    for region in timed:
        by_layer.setdefault(region.region.head.layer, []).append(region)
    rows = []
    for row in _compute_layer_bounds(trace, device, dtype, calibration):
        regions = by_layer.get(row["path"], [])
        seconds = sum(region.seconds for region in regions)
        binds = _find_binding(regions) if regions else ""
        rows.append({**row, "estimate_seconds": max(seconds, row["bound_seconds"]), "binds": binds})
    return LayerTable(rows)


def _compute_layer_bounds(
    trace: ModelTrace, device: DeviceInfo, dtype: str | None, calibration: Calibration | None = None
) -> LayerTable:
    """Return the bound of each layer's own operators, as if it ran by itself: its weights, inputs and outputs."""
    by_layer: dict[str, list[OpRecord]] = {}
    for operator in trace.operators:
        by_layer.setdefault(operator.layer, []).append(operator)
    around = {layer.path.rpartition(".")[0] for layer in trace.layers if layer.path}
    rows: list[dict[str, Any]] = []
    for layer in trace.layers:
        operators = tuple(by_layer.get(layer.path, ()))
        part = ModelTrace((layer,), operators)
        rate = None if calibration is None else calibration.best_bandwidth(compulsory_bytes(part))
        bound = compute_bound(part, device, dtype, rate)
        called = sum(count_bytes(call.inputs) for call in layer.calls)
        rate = rate or device.bandwidth
        moved = min(compulsory_bytes(part) + called, sum(op.bytes_read + op.bytes_written for op in operators))
        bound = Bound(bound.products, None if rate is None else moved / rate)
        rows.append(
            {
                "path": layer.path,
                "type": layer.type,
                "depth": layer.depth,
                "is_leaf": layer.path not in around,
                "calls": len(layer.calls),
                "own_macs": sum(operator.macs for operator in operators),
                "bound_seconds": bound.seconds if operators else 0.0,
                "estimate_seconds": None,
                "binds": bound.binds if operators else "",
            }
        )
    return LayerTable(rows)
