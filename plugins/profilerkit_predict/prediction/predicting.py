"""Predicted time: a bound by the data sheet, and with a calibration an estimate in an interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from profilerkit.arguments.checks import FLAG
from profilerkit.backend import Backend
from profilerkit.devices.catalog import device as device_named
from profilerkit.devices.info import DeviceInfo
from profilerkit.errors import ArgumentError
from profilerkit.job import Job
from profilerkit.trace.layer_paths import describe_layers
from profilerkit.trace.layer_table import LayerTable
from profilerkit.trace.records import LayerRecord, ModelTrace, OpRecord

from .bound import Bound, compulsory_bytes, compute_bound, count_bytes
from .calibrated_times import CalibratedTimes, TimedRegion
from .calibration import Calibration, name_phase
from .notes import write_notes
from .regions import find_regions, join_recurrences
from .result import Prediction


def predict(
    model: Any,
    inputs: Any = None,
    *,
    on: DeviceInfo | str,
    input_shape: Any = None,
    batch_size: int | None = None,
    training: bool = False,
    dtype: str | None = None,
    compiled: bool = False,
    backend: Backend | str | None = None,
) -> Prediction:
    """Predict the time of a forward pass or a training step on a device; nothing is run or measured.

    >>> from torch import nn
    >>> predicted = predict(nn.Linear(8, 2), input_shape=(8,), on="h100")
    >>> predicted.tier, predicted.binds, predicted.high
    ('data sheet', 'traffic', None)

    Args:
        model: A model of any framework that has a backend.
        inputs: Example inputs; see `profilerkit.profile` for this, ``input_shape``, ``batch_size`` and ``backend``.
        on: The device: a `DeviceInfo`, a name, or the path of a TOML file, calibrated or not.
        input_shape: The shape of one sample, instead of inputs.
        batch_size: The samples in one pass.
        training: If True, predict a training step: the forward pass in training mode, and the gradients.
        dtype: The dtype of matrix products, such as "bf16" or "tf32". Default: the dtype of the model.
        compiled: If True, predict a compiled model, whose operators are fused.
        backend: A backend or its name. Default: the backend of the model's framework.

    Raises:
        DeviceNotKnownError: No device of that name is described.
        UnknownPeakError: The device's peak for a dtype of the model's products is not known.
    """
    target = device_named(on)
    profiler = Job(model, inputs, input_shape, backend=backend).make_profiler()
    arguments: dict[str, Any] = {} if batch_size is None else {"batch_size": batch_size}
    key = "training_trace" if FLAG("training", training) else "trace"
    trace: ModelTrace = profiler.compute_status(key, **arguments)
    return predict_trace(trace, target, dtype=dtype, compiled=compiled)


class NothingToPredictError(ArgumentError):
    """The model computes nothing, like one layer that returns its input: there is no time to predict."""


def predict_trace(
    trace: ModelTrace, device: DeviceInfo, *, dtype: str | None = None, compiled: bool = False
) -> Prediction:
    """Return the predicted time of a trace, forward or of a training step, on a device.

    With a data sheet only it is a bound: ``max(products at peak, compulsory bytes at bandwidth)``. With a calibration
    it is an estimate too: the sum of the times of regions of operators by the tables, and the time of the host; on a
    device of its own (a GPU) the longer of both. A compiled graph has fused regions, and the host makes one call.

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
    return _Predictor(trace, device, dtype, compiled, Calibration.of(device)).predict()


@dataclass(frozen=True)
class _Predictor:
    """Predicts the time of one trace on one device; see `predict_trace` for its fields."""

    trace: ModelTrace
    device: DeviceInfo
    dtype: str | None
    compiled: bool
    #: The measurements of the device; None for a device that is known by a data sheet.
    calibration: Calibration | None

    def predict(self) -> Prediction:
        """Return the bound, with a calibration also the estimate."""
        calibration, trace = self.calibration, self.trace
        measured_rate = None if calibration is None else calibration.best_bandwidth(compulsory_bytes(trace))
        bound = compute_bound(trace, self.device, self.dtype, measured_rate)
        is_training = any(operator.phase == "backward" for operator in trace.operators)
        prediction = Prediction(
            self.device,
            bound,
            low=bound.seconds,
            binds=bound.binds,
            layers=LayerTable([]),
            phase="training" if is_training else "forward",
            notes=write_notes(trace, bound, self.device, self.dtype, calibration, compiled=self.compiled),
        )
        if calibration is None:
            return replace(prediction, layers=self._describe_layers())
        return self._estimate(prediction, calibration)

    def _estimate(self, prediction: Prediction, calibration: Calibration) -> Prediction:
        """Return a prediction with the estimate by a calibration, in the interval that it gives."""
        times = CalibratedTimes(calibration, self.device.name, self.dtype, self.compiled)
        operators = tuple(join_recurrences(self.trace))
        regions = [times.time_region(region) for region in find_regions(operators, fused=self.compiled)]
        device_seconds = sum(region.seconds for region in regions)
        host_seconds = times.find_host_seconds(self.trace, operators, prediction.phase)
        is_cpu, bound = self.device.kind == "cpu", prediction.bound.seconds
        if not is_cpu and not self.compiled:
            host_seconds += sum(region.host_seconds for region in regions)
        together = device_seconds + host_seconds if is_cpu else max(device_seconds, host_seconds)
        # The correction is relative to this time, not to the sum of the tables alone.
        correction = calibration.correction(name_phase(prediction.phase, self.compiled))
        estimate, low, high = correction.correct(max(together, bound), bound)
        return replace(
            prediction,
            estimate=estimate,
            low=low,
            high=None if self.trace.uncounted else high,
            binds="dispatch" if host_seconds > device_seconds else _find_binding(regions),
            device_seconds=device_seconds,
            host_seconds=host_seconds,
            layers=self._describe_layers(regions),
        )

    def _describe_layers(self, regions: Iterable[TimedRegion] | None = None) -> LayerTable:
        """Return for each layer the bound of its own operators, and the estimate of its regions if they are given."""
        operators_by_layer, regions_by_layer = _group_by_layer(self.trace.operators), _group_by_layer(regions or ())
        rows = []
        identities = describe_layers({layer.path: layer.type for layer in self.trace.layers})
        for layer in self.trace.layers:
            operators, timed = operators_by_layer[layer.path], regions_by_layer[layer.path]
            bound = self._compute_layer_bound(layer, operators)
            estimate, binds = None, bound.binds if operators else ""  # nothing binds a layer without own operators
            if regions is not None:
                estimate = max(sum(region.seconds for region in timed), bound.seconds)
                binds = _find_binding(timed) if timed else ""
            counts = {"calls": layer.call_count, "own_macs": sum(operator.macs for operator in operators)}
            rows.append(
                identities[layer.path]
                | counts
                | {"bound_seconds": bound.seconds, "estimate_seconds": estimate, "binds": binds}
            )
        return LayerTable(rows)

    def _compute_layer_bound(self, layer: LayerRecord, operators: Sequence[OpRecord]) -> Bound:
        """Return the bound of a layer's own operators, as if it ran by itself: its weights, inputs and outputs."""
        if not operators:
            return Bound(0.0, None)
        part = ModelTrace((layer,), tuple(operators))
        needed = compulsory_bytes(part)
        rate = (self.calibration and self.calibration.best_bandwidth(needed)) or self.device.bandwidth
        read_by_calls = sum(call.times * count_bytes(call.inputs) for call in layer.calls)
        moved = min(needed + read_by_calls, sum(operator.bytes_read + operator.bytes_written for operator in operators))
        products = compute_bound(part, self.device, self.dtype).products
        return Bound(products, None if rate is None else moved / rate)


def _find_binding(regions: Iterable[TimedRegion]) -> str:
    """Return the binding of the regions with the most seconds together: "products", "traffic" or "dispatch"."""
    totals: defaultdict[str, float] = defaultdict(float)
    for region in regions:
        totals[region.binds] += region.seconds
    return max(totals, key=totals.__getitem__, default="dispatch")


def _group_by_layer(items: Iterable[Any]) -> defaultdict[str, list[Any]]:
    """Return operators or regions by the paths of their layers."""
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for item in items:
        groups[item.layer].append(item)
    return groups
