"""The notes of a prediction: its assumptions and its gaps."""

from __future__ import annotations

import math
from collections.abc import Iterator

from profilerkit.devices.info import DeviceInfo
from profilerkit.devices.products import find_dtype
from profilerkit.trace.records import ModelTrace

from .bound import Bound, may_use_tf32
from .calibration import Calibration
from .operators import is_selective


def write_notes(
    trace: ModelTrace,
    bound: Bound,
    device: DeviceInfo,
    dtype: str | None = None,
    calibration: Calibration | None = None,
    *,
    compiled: bool = False,
) -> tuple[str, ...]:
    """Return the notes of a prediction; the first says that nothing was measured."""
    notes = ["predicted, not measured", "attention counts in full"]
    if calibration is None:
        notes.append("by data sheet: a bound, with nothing in the device's caches before")
        if bound.traffic is None:
            notes.append("the bandwidth of the device's memory is not known: products alone bound it")
        notes += _list_assumptions(trace, device, dtype)
    else:
        notes.append(f"by a calibration with {calibration.backend}{', as a compiled graph' if compiled else ''}")
        if compiled and not any(network.is_compiled for network in calibration.networks):
            notes.append("no compiled network was measured: the interval is wide; 'profilerkit calibrate --compiled'")
    if trace.uncounted:
        notes.append(f"without the cost of {', '.join(trace.missing)}")
    return tuple(notes)


def _list_assumptions(trace: ModelTrace, device: DeviceInfo, dtype: str | None) -> Iterator[str]:
    """Yield the assumptions under which the bound holds for any run, and the cases for which it does not hold."""
    products = [operator for operator in trace.operators if operator.macs]
    if dtype is None:
        in_float32 = [operator for operator in products if find_dtype(operator) == "float32"]
        by_tf32 = [may_use_tf32(operator, device) for operator in in_float32]
        has_faster_tf32 = (device.peak("tf32") or 0.0) > (device.peak("float32") or math.inf)
        if any(by_tf32):
            yield "float32 convolutions at the peak of tf32, their default; dtype='float32' where that is switched off"
        if has_faster_tf32 and not all(by_tf32):
            yield (
                "other float32 products at their own peak; dtype='tf32' where TF32 is on (TensorFlow's and JAX's "
                "default)"
            )
    if any(map(is_selective, products)):
        yield "of the experts of a layer, the bytes of one: which are chosen depends on values"
