"""Calibrates a device of this machine: has operators, the host and networks measured, and makes the device of all that.

`measuring` does the timing; `device_file` writes the file of the device.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median_high

from profilerkit.backend import Backend, DeviceLike, RunOptions
from profilerkit.count_text import format_count
from profilerkit.devices.info import DeviceInfo, Figure, dtype_name
from profilerkit.process.environment import machine
from profilerkit.protocols import NamesDevices, require_capability

from .calibration import Calibration, write_content
from .capability import CALIBRATES, Calibrates
from .measuring import choose_clock, measure_networks, measure_tables

#: The shares of the time that the host and the networks have; the operators have the rest.
_OF_HOST, _OF_NETWORKS = 0.1, 0.35
#: The recorded facts of the machine.
_FACTS = ("os", "cpu", "usable_cores", "python")
_SOURCE = "measured by profilerkit calibrate"


def calibrate(
    backend: Backend,
    device: DeviceLike = None,
    dtypes: Sequence[str] = ("float32",),
    seconds: float = 120.0,
    num_threads: int | None = None,
    progress: Callable[[str], object] = lambda step: None,
    compiled: bool = False,
) -> DeviceInfo:
    """Measure a device of this machine, and return it as a calibrated one.

    Args:
        backend: The backend whose operators are measured; it implements `Calibrates`.
        device: The device; the CPU for None.
        dtypes: The dtypes to measure products and traffic in.
        seconds: The approximate limit of the time.
        num_threads: How many threads an operator may use; the framework's setting for None. A calibration is for this
            number.
        progress: Called with a text at each step.
        compiled: Also run the networks compiled by the framework's compiler, which takes some minutes more.

    Raises `NotOfferedError` if the backend provides nothing to measure, and `InputError` if nothing of it could be
    measured.
    """
    provider = require_capability(backend, Calibrates, [CALIBRATES])
    info = require_capability(backend, NamesDevices).device_info(device)
    began = time.perf_counter()
    cases = [case for dtype in dtypes for case in provider.calibration_cases(device, dtype_name(dtype))]
    progress(f"{format_count(len(cases), 'operator')} on {info.name}")
    with provider.use_threads(num_threads) as threads:
        clock = choose_clock(info, threads)
        host = provider.host_seconds(device, compiled, seconds * _OF_HOST)
        for_operators = began + seconds * (1 - _OF_NETWORKS) - time.perf_counter()
        tables, failed = measure_tables(backend, cases, for_operators, clock)
    for name, reason in failed.items():
        progress(f"without {name}: {reason}")
    dispatch = host.operator_call or min(table.least_seconds for table in tables)
    calibration = Calibration(tables, dispatch, host, backend=_describe_backend(backend, threads))

    networks = list(provider.calibration_networks(device))
    measure = partial(measure_networks, backend, networks, _make_device(info, calibration, {}), clock=clock)
    options = RunOptions(num_threads=threads)
    progress(f"{len(networks)} networks")
    results = measure(seconds=max(began + seconds - time.perf_counter(), 0.0), options=options)
    if compiled:  # beyond the seconds that were asked for
        progress(f"{len(networks)} networks, compiled")
        results += measure(seconds=seconds * _OF_NETWORKS, options=replace(options, compile=True))
    calibration = replace(calibration, networks=results)
    of_machine = machine()
    facts = {name: of_machine[name] for name in _FACTS if name in of_machine}
    facts |= {"calibrated_with": calibration.backend, "seconds": f"{time.perf_counter() - began:.0f}"}
    facts |= _list_left_out(calibration, len(cases), failed, len(networks))
    return _make_device(info, calibration, facts)


def _list_left_out(calibration: Calibration, cases: int, failed: Mapping[str, str], networks: int) -> dict[str, str]:
    """Return the facts of cases and networks without a measurement: for lack of time, or because of a failure."""
    points = sum(len(table.points) for table in calibration.tables)
    ran = len({network.name for network in calibration.networks})
    facts = {}
    for what, measured, number in (("operators", points, cases - len(failed)), ("networks", ran, networks)):
        if measured < number:
            facts[f"{what}_measured"] = f"{measured} of {number}; the time did not suffice for more: give more seconds"
    if failed:
        facts["operators_failed"] = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
    return facts


def _describe_backend(backend: Backend, threads: int) -> str:
    """Return the framework with its versions, and for how many threads a calibration is."""
    version = ", ".join(f"{name} {value}" for name, value in list(backend.environment().items())[:2])
    return f"{backend.name} ({version}) on {format_count(threads, 'thread')}"


def _make_device(info: DeviceInfo, calibration: Calibration, facts: dict[str, str]) -> DeviceInfo:
    """Return the calibrated device: the best rates that were measured, the tables, and facts of the calibration."""
    spread = float(f"{median_high(point.spread for table in calibration.tables for point in table.points):.3g}")
    rates = _find_peaks(calibration, is_gpu=info.kind == "gpu")
    kept = {name: figure for name, figure in info.figures.items() if name in ("memory_size", "clock", "memory_clock")}
    return DeviceInfo(
        name=info.name,
        title=info.title or info.name,
        kind=info.kind,
        aliases=info.aliases,
        dense_peaks={dtype: _make_figure(rate, "the fastest product", spread) for dtype, rate in rates.items()},
        sparse_peaks={},
        figures=kept | _measure_figures(calibration, spread),
        tier="calibrated",
        facts=facts,
        calibration=write_content(calibration),
    )


def _measure_figures(calibration: Calibration, spread: float) -> dict[str, Figure]:
    """Return the bandwidth of the largest traffic, if any was measured, and the time of the shortest operator."""
    figures = {"dispatch": _make_figure(calibration.dispatch, "the shortest operator")}
    largest = max(point.work for table in calibration.tables for point in table.points if not table.is_of_products)
    bandwidth = calibration.best_bandwidth(largest)
    if bandwidth is not None:
        figures["memory_bandwidth"] = _make_figure(bandwidth, f"the fastest traffic of {largest:.3g} bytes", spread)
    return figures


def _make_figure(value: float, note: str, spread: float | None = None) -> Figure:
    """Return a measured figure, rounded as far as it may be the same another time."""
    return Figure(float(f"{value:.4g}"), _SOURCE, note, spread)


def _find_peaks(calibration: Calibration, *, is_gpu: bool) -> dict[str, float]:
    """Return the best rate of products in each dtype.

    On a GPU, convolutions and recurrent layers of float32 may run in TF32, which is the default of their library: if
    they are faster than any other product of float32, their best rate is the rate of ``tf32``.
    """
    peaks: dict[str, float] = {}
    for table in calibration.tables:
        if table.is_of_products:
            may_be_tf32 = is_gpu and table.dtype == "float32"
            is_of_library = "convolution" in table.kind or "recurrent" in table.kind
            dtype = "tf32" if may_be_tf32 and is_of_library else table.dtype
            peaks[dtype] = max(peaks.get(dtype, 0.0), table.best_rate)
    if peaks.get("tf32", math.inf) <= peaks.get("float32", 0.0):
        del peaks["tf32"]
    return peaks
