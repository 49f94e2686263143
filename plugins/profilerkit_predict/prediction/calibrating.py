"""Calibrates a device of this machine: measures operators, the host and networks, and makes the device of all that."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from statistics import median_high
from typing import NamedTuple, TypeVar

import msgspec

from profilerkit.backend import Backend, DeviceLike, RunOptions
from profilerkit.count_text import format_count
from profilerkit.devices.info import DeviceInfo, Figure, dtype_name
from profilerkit.error_text import error_line
from profilerkit.errors import InputError, ProfilerKitError
from profilerkit.process.environment import machine
from profilerkit.protocols import NamesDevices, Trains, find_capability, require_capability
from profilerkit.times.run import Run
from profilerkit.times.sampling import Sampling, measure
from profilerkit.trace.records import ModelTrace, OpRecord

from ..capabilities import CAPABILITIES, Calibrates
from .calibration import Calibration, Network, name_phase, write_content
from .cases import CalibrationCase, CalibrationNetwork, OperatorCall
from .operators import count_moved_bytes, find_family, find_kind, find_sizes, is_free, plain_name
from .predicting import predict_trace
from .tables import EfficiencyTable, Point

__all__ = ["calibrate", "choose_clock", "describe_left_out", "in_spread_order", "measure_networks", "measure_tables"]

#: The shares of the time that the host and the networks have; the operators have the rest.
_OF_HOST, _OF_NETWORKS = 0.1, 0.35
#: What of the machine is recorded.
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
        backend: The backend whose operators are measured; it implements `profilerkit_predict.capabilities.Calibrates`.
        device: The device; the CPU for None.
        dtypes: The dtypes to measure products and traffic in.
        seconds: About how long it may take.
        num_threads: How many threads an operator may use; those of the framework's setting for None. A calibration is
            for that number.
        progress: Called with a text at each step.
        compiled: Also run the networks compiled by the framework's compiler, which takes some minutes more.

    Raises `NotOfferedError` if the backend provides nothing to measure, and `InputError` if nothing of it could be
    measured.
    """
    provider = require_capability(backend, Calibrates, CAPABILITIES)
    info = require_capability(backend, NamesDevices).device_info(device)
    began = time.perf_counter()
    cases = [case for dtype in dtypes for case in provider.calibration_cases(device, dtype_name(dtype))]
    progress(f"{format_count(len(cases), 'operator')} on {info.name}")
    failed: dict[str, str] = {}

    def leave_out(case: CalibrationCase, error: Exception) -> None:
        failed[case.name] = f"{type(error).__name__}: {error_line(error)}"
        progress(f"without {case.name}: {failed[case.name]}")

    with provider.use_threads(num_threads) as threads:
        clock = choose_clock(info, threads)
        host = provider.host_seconds(device, compiled, seconds * _OF_HOST)
        left_for_operators = began + seconds * (1 - _OF_NETWORKS) - time.perf_counter()
        tables = measure_tables(backend, cases, left_for_operators, clock, leave_out)
    dispatch = host.operator_call or min(table.least_seconds for table in tables)
    calibration = Calibration(tables, dispatch, host, backend=_describe_backend(backend, threads))

    networks = list(provider.calibration_networks(device))
    uncorrected = _make_device(info, calibration, {})
    progress(f"{len(networks)} networks")
    left_for_networks = max(began + seconds - time.perf_counter(), 0.0)
    results = measure_networks(backend, networks, uncorrected, left_for_networks, threads, clock)
    if compiled:
        progress(f"{len(networks)} networks, compiled")
        more = seconds * _OF_NETWORKS  # beyond the seconds that were asked for
        results += measure_networks(backend, networks, uncorrected, more, threads, clock, compiled=True)
    calibration = replace(calibration, networks=results)
    facts = {"calibrated_with": calibration.backend, "seconds": f"{time.perf_counter() - began:.0f}"}
    facts |= _list_left_out(calibration, len(cases), failed, len(networks))
    return _make_device(info, calibration, facts)


def _list_left_out(calibration: Calibration, cases: int, failed: Mapping[str, str], networks: int) -> dict[str, str]:
    """Return the facts of what was not measured of so many cases and networks: for lack of time, or as it failed."""
    points = sum(len(table.points) for table in calibration.tables)
    facts = describe_left_out("operators", points, cases - len(failed))
    facts |= describe_left_out("networks", len({network.name for network in calibration.networks}), networks)
    if failed:
        facts["operators_failed"] = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
    return facts


def _describe_backend(backend: Backend, threads: int) -> str:
    """Return the framework with its versions, and for how many threads a calibration is."""
    version = ", ".join(f"{name} {value}" for name, value in list(backend.environment().items())[:2])
    return f"{backend.name} ({version}) on {format_count(threads, 'thread')}"


def describe_left_out(what: str, measured: int, number: int) -> dict[str, str]:
    """Return the fact that not everything was measured, for the file; empty if it was."""
    if measured >= number:
        return {}
    return {f"{what}_measured": f"{measured} of {number}; the time did not suffice for more: give more seconds"}


def _make_device(info: DeviceInfo, calibration: Calibration, facts: dict[str, str]) -> DeviceInfo:
    """Return the calibrated device: the best rates that were measured, the tables, and facts of the calibration."""
    spread = _find_median_spread(calibration)
    peaks = {
        dtype: _make_figure(rate, "the fastest product", spread)
        for dtype, rate in _find_peaks(calibration, is_gpu=info.kind == "gpu").items()
    }
    figures = {
        name: figure for name, figure in info.figures.items() if name in ("memory_size", "clock", "memory_clock")
    }
    largest = max(point.work for table in calibration.tables for point in table.points if not table.is_of_products)
    bandwidth = calibration.best_bandwidth(largest)
    if bandwidth is not None:
        figures["memory_bandwidth"] = _make_figure(bandwidth, f"the fastest traffic of {largest:.3g} bytes", spread)
    figures["dispatch"] = _make_figure(calibration.dispatch, "the shortest operator")
    of_machine = machine()
    return DeviceInfo(
        name=info.name,
        title=info.title or info.name,
        kind=info.kind,
        aliases=info.aliases,
        dense_peaks=peaks,
        sparse_peaks={},
        figures=figures,
        tier="calibrated",
        facts={**{name: of_machine[name] for name in _FACTS if name in of_machine}, **facts},
        calibration=write_content(calibration),
    )


def _make_figure(value: float, note: str, spread: float | None = None) -> Figure:
    """Return a measured figure, rounded as far as it may be the same another time."""
    return Figure(float(f"{value:.4g}"), _SOURCE, note, spread)


def _find_peaks(calibration: Calibration, *, is_gpu: bool) -> dict[str, float]:
    """Return the best rate of products in each dtype.

    On a GPU, convolutions and recurrent layers of float32 may run in TF32, which is the default of their library: if
    they are faster than any other product of float32, their best rate is that of ``tf32``.
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


def _find_median_spread(calibration: Calibration) -> float:
    """Return the median of the spreads of all points."""
    spreads = (point.spread for table in calibration.tables for point in table.points)
    return float(f"{median_high(spreads):.3g}")


#: Shorter calls are timed several at a time, so that the clock is no part of them.
_SHORTEST_SAMPLE = 200e-6
#: How often an operator is timed at least, and how often if the time does not suffice.
_SAMPLES, _FEWEST_SAMPLES = 20, 3

T = TypeVar("T")


def choose_clock(device: DeviceInfo, threads: int) -> Callable[[], float]:
    """Return the clock to measure by: on one thread of a CPU the time of the process, which other programs leave alone.

    It is that of a wall clock if nothing else runs.
    """
    return time.process_time if device.kind == "cpu" and threads == 1 else time.perf_counter


class _TablePoint(NamedTuple):
    """A point, and the table that it belongs to: that of a kind or family in a dtype."""

    kind: str
    dtype: str
    point: Point


def measure_tables(
    backend: Backend,
    cases: Iterable[CalibrationCase],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    leave_out: Callable[[CalibrationCase, Exception], object] | None = None,
) -> tuple[EfficiencyTable, ...]:
    """Measure operators and return their tables; raises `InputError` if a case is not one operator.

    If the time is over before all are measured, those that are left out are spread over all kinds and sizes. An
    operator that the device refuses, as some are in some dtypes, goes to ``leave_out``; without that it raises.
    """
    listed = in_spread_order(cases, lambda case: case.name.partition(" ")[0])
    points: dict[tuple[str, str], list[Point]] = {}
    deadline = time.perf_counter() + seconds
    for index, case in enumerate(listed):
        left = deadline - time.perf_counter()
        if left <= 0 and _has_both(points):
            break
        try:
            measured = _measure_case(backend, case, max(left, 0.0) / (len(listed) - index), clock)
        except ProfilerKitError:
            raise
        except Exception as error:
            if leave_out is None:
                raise
            leave_out(case, error)
            continue
        points.setdefault((measured.kind, measured.dtype), []).append(measured.point)
    if not points:
        raise InputError(f"the {backend.name} backend provides no operator to measure")
    return tuple(EfficiencyTable(kind, dtype, tuple(members)) for (kind, dtype), members in points.items())


def _measure_case(backend: Backend, case: CalibrationCase, seconds: float, clock: Callable[[], float]) -> _TablePoint:
    """Measure one case in about so many seconds."""
    made = case.make()
    operator = _find_operator(backend, case, made)
    dtype = operator.outputs[0].dtype
    moved = max(1.0, count_moved_bytes(operator))
    taken = _time_call(made.call, seconds, clock)
    host_seconds = made.host_seconds()  # known now that it was called
    if case.is_gradient:  # two products, by the weight and by the input
        name = f"{plain_name(operator.operator)}_backward"
        operator = msgspec.structs.replace(operator, operator=name, macs=2 * operator.macs, phase="backward")
    if operator.macs:
        point = Point(find_sizes(operator), 2.0 * operator.macs, taken.shortest, taken.spread, host_seconds)
        return _TablePoint(find_kind(operator), dtype, point)
    point = Point((moved,), moved, taken.shortest, taken.spread, host_seconds)
    return _TablePoint(find_family(operator), dtype, point)


def _find_operator(backend: Backend, case: CalibrationCase, made: OperatorCall) -> OpRecord:
    """Return the one operator of a case; raises `InputError` if it is none or several."""
    trace = backend.trace(made.model, made.inputs)
    operators = [operator for operator in trace.operators if not is_free(operator)]
    if len(operators) != 1 or not operators[0].outputs:
        names = ", ".join(operator.operator for operator in operators) or f"none ({trace.failure})"
        raise InputError(f"the case {case.name!r} of a calibration is not one operator; it runs {names}")
    return operators[0]


def _has_both(points: Mapping[tuple[str, str], Sequence[Point]]) -> bool:
    """Return whether there are products and traffic: with less there is no peak and no bandwidth."""
    return {len(members[0].sizes) > 1 for members in points.values()} == {True, False}


def in_spread_order(cases: Iterable[T], group_of: Callable[[T], str]) -> list[T]:
    """Return cases so that any first part of them has some of each group, and of each the ends and the middle.

    >>> in_spread_order(["a1", "a2", "a3", "a4", "b1"], lambda case: case[0])
    ['a1', 'b1', 'a4', 'a2', 'a3']
    """
    groups: dict[str, list[T]] = {}
    for case in cases:
        groups.setdefault(group_of(case), []).append(case)
    ordered = [[group[index] for index in _list_ends_first(len(group))] for group in groups.values()]
    return [case for row in zip_longest(*ordered) for case in row if case is not None]


def _list_ends_first(number: int) -> list[int]:
    """Return the numbers below a number: both ends, then the middle of each gap that is left."""
    order = [0] if number == 1 else [0, number - 1]
    gaps = [(0, number - 1)]
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return order


class _CallTime(NamedTuple):
    """The shortest seconds of a call, and how far the median is above them, as a share."""

    shortest: float
    spread: float


def _time_call(call: Callable[[], object], seconds: float, clock: Callable[[], float]) -> _CallTime:
    """Time a call in about so many seconds; if they do not suffice for many samples, few are taken.

    The shortest time counts, since other programs make a call longer, never shorter.
    """
    run = Run.of(call)
    has_own_clock = run is call  # and takes care of short calls itself
    deadline = time.perf_counter() + seconds
    once = 1.0  # second at the most, and the shortest of four calls
    for _ in range(4):
        once = min(once, max(run.seconds(clock), 1e-9))
        if time.perf_counter() >= deadline:
            break
    sample = min(_SHORTEST_SAMPLE, max(seconds, 1e-6) / _FEWEST_SAMPLES)
    repeats = 1 if has_own_clock else max(1, math.ceil(sample / once))

    def run_several() -> None:
        for _ in range(repeats):
            call()

    left = max(deadline - time.perf_counter(), 1e-6)
    is_short = left < _SAMPLES * repeats * once
    samples, warmup = (_FEWEST_SAMPLES, 0) if is_short else (_SAMPLES, None)
    sampling = Sampling(warmup=warmup, max_seconds=left, min_samples=samples, relative_precision=0.003, clock=clock)
    taken = measure(run if has_own_clock else run_several, sampling)
    return _CallTime(taken.min / repeats, taken.median / taken.min - 1)


def measure_networks(
    backend: Backend,
    networks: Iterable[CalibrationNetwork],
    device: DeviceInfo,
    seconds: float,
    num_threads: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
    *,
    compiled: bool = False,
) -> tuple[Network, ...]:
    """Predict and run networks, compiled or not, forward and in training steps, and return the ratios of both times.

    The median of the measured times counts, as in the ``execution_time`` that a prediction is of.
    """
    listed = list(networks)
    if not listed:
        return ()
    # Without the networks of a calibration before: predictions would be corrected by their ratios already.
    uncorrected = replace(device, calibration={**(device.calibration or {}), "networks": []})
    phases = ("forward",) if find_capability(backend, Trains) is None else ("forward", "training")
    runs = [(network, phase) for network in in_spread_order(listed, lambda item: item.family) for phase in phases]
    deadline = time.perf_counter() + seconds
    results: list[Network] = []
    for index, (network, phase) in enumerate(runs):
        left = deadline - time.perf_counter()
        if left <= 0 and index >= len(phases):  # one network in each phase is measured all the same
            break
        left = max(left, 1e-6)
        trace = _trace(backend, network, phase)
        predicted = predict_trace(trace, uncorrected, compiled=compiled)
        options = RunOptions(training=phase == "training", compile=compiled, num_threads=num_threads)
        with backend.run(network.model, network.inputs, options) as run:
            taken = measure(run, Sampling(max_seconds=left / (len(runs) - index), min_samples=3, clock=clock))
        ratio = taken.median / predicted.seconds
        results.append(Network(network.name, network.family, name_phase(phase, compiled), ratio))
    return tuple(results)


def _trace(backend: Backend, network: CalibrationNetwork, phase: str) -> ModelTrace:
    if phase == "forward":
        return backend.trace(network.model, network.inputs)
    return require_capability(backend, Trains).trace_training(network.model, network.inputs)
