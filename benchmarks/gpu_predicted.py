"""A step of ``make gpu``: a calibration of the device, and what it predicts for networks that it has not seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

from gpu_results import Result, Skipped

if TYPE_CHECKING:
    from gpu import Where

STEP = "predicted"
PHASES = ("forward", "training")
DTYPES = ("float32", "bfloat16")
#: Batch sizes: of the small networks the host's time is most of it, at any size.
_SMALL_BATCH, _LARGE_BATCH = 16, 256


def measure(where: Where, part: int, parts: int) -> Iterator[Result | Skipped | dict[str, str]]:
    """Yield the calibration's own figures, then predicted and measured times, and the errors of all of them."""
    from profilerkit.devices import device
    from profilerkit.hooks.backends import backend_named
    from profilerkit_predict.prediction.calibrating import calibrate
    from profilerkit_predict.prediction.calibration import Calibration
    from profilerkit_predict.prediction.device_file import write_toml

    backend: Any = backend_named("torch")
    seconds, began = (4.0 if where.is_small else 75.0), time.monotonic()
    dtypes = DTYPES[:1] if where.is_small else DTYPES
    measured = calibrate(backend, where.device, dtypes, seconds, 1 if where.is_small else None, print)
    print(f"calibrated in {time.monotonic() - began:.0f} s: {measured.facts}")
    path = where.folder / "calibrated.toml"
    path.write_text(write_toml(measured), encoding="utf-8")
    yield {"calibration": f"{seconds:.0f} s asked for, {time.monotonic() - began:.0f} s taken"}
    calibrated, calibration = device(str(path)), Calibration.of(measured)
    assert calibration is not None
    yield from _of_calibration(calibrated, calibration)
    data_sheet = None if where.is_small else device(backend.device_info(where.device).name)
    yield from _networks(where, calibrated, data_sheet)


def _of_calibration(calibrated: Any, calibration: Any) -> Iterator[Result]:
    yield Result(STEP, "calibration", "dispatch of an operator", calibration.dispatch, 1e-6, "1 µs", "s")
    for name in ("layer_call", "view_call", "gradient_call", "backward_call"):
        yield Result(STEP, "calibration", name, getattr(calibration.host, name), 1e-6, "1 µs", "s")
    for dtype, peak in calibrated.dense_peaks.items():
        yield Result(STEP, "calibration", f"fastest product in {dtype}", peak.value, 1e12, "1 TFLOP/s", "1/s")
    yield Result(STEP, "calibration", "fastest traffic", calibrated.bandwidth or 0.0, 1e12, "1 TB/s", "B/s")
    for phase in ("forward", "training"):
        middle, low, high = calibration.correction(phase)
        note = f"9 of 10 between {low:.3f} and {high:.3f}"
        yield Result(STEP, "calibration", f"correction, {phase}", middle, 1.0, "1", "", None, note)
    for network in calibration.networks:
        metric = f"its own network, {network.phase}"
        yield Result(STEP, network.name, metric, network.ratio, 1.0, "predicted without correction")


def _list_networks(small: bool) -> Iterator[tuple[str, Any, Callable[[int], Any], int]]:
    """Yield name, model, the function that makes inputs, and a batch size."""
    from gpu_times import subjects
    from predicted_networks import subjects as small_networks

    for subject in list(small_networks())[:: 15 if small else 2]:
        for batch in (_SMALL_BATCH,) if small else (_SMALL_BATCH, _LARGE_BATCH):
            yield subject.name, subject.model, subject.inputs, batch
    if not small:
        for name, make in subjects(small).items():
            model, (x,) = make()
            yield name, model, lambda batch, x=x: x, len(x)  # type: ignore[misc]


def _networks(where: Where, calibrated: Any, data_sheet: Any) -> Iterator[Result]:
    from gpu_times import forward_call, make_training_call, seconds_by_hand

    from profilerkit import ModelInputs
    from profilerkit.hooks.backends import backend_named
    from profilerkit_predict.prediction.predicting import predict_trace

    backend: Any = backend_named("torch")
    errors: dict[str, list[float]] = {phase: [] for phase in PHASES}
    covered: dict[str, list[bool]] = {phase: [] for phase in PHASES}
    above: list[str] = []
    for name, model, inputs_of, batch in _list_networks(where.is_small):
        x = inputs_of(batch).to(where.device)
        for phase in PHASES:
            is_step = phase == "training"
            model.to(where.device).train(is_step)
            call = (make_training_call if is_step else forward_call)(model, x)
            taken = seconds_by_hand(call, where.device, 12 if where.is_small else 20)
            trace = (backend.trace_training if is_step else backend.trace)(model, ModelInputs(x))
            predicted = predict_trace(trace, calibrated)
            assert predicted.estimate is not None
            inside = predicted.low <= taken <= (predicted.high or float("inf"))
            errors[phase].append(abs(predicted.estimate / taken - 1))
            covered[phase].append(inside)
            note = f"{'inside' if inside else 'OUTSIDE'}, by {predicted.binds}; host {predicted.host_seconds:.3g} s, "
            note += f"device {predicted.device_seconds:.3g} s"
            metric = f"estimate, {phase}, batch {batch}"
            yield Result(STEP, name, metric, predicted.estimate, taken, "measured", "s", None, note)
            if data_sheet is not None:
                bound = predict_trace(trace, data_sheet)
                if bound.bound.seconds > taken:
                    above.append(f"{name}, {phase}, {batch}: {bound.bound.seconds:.3g} s of {taken:.3g} s")
        model.cpu()
    for phase in PHASES:
        count = len(covered[phase])
        yield Result(STEP, "all networks", f"median error, {phase}", median(errors[phase]), 1.0, "the measured time")
        yield Result(STEP, "all networks", f"in the interval, {phase}", sum(covered[phase]), count, "all of them")
    note = "; ".join(above)[:600]
    yield Result(STEP, "all networks", "data sheet bounds above a measurement", len(above), 0.0, "none", "", 0.0, note)
