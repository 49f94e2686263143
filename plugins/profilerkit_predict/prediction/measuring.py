"""Times the operators and networks of a backend for a calibration, in about so many seconds.

If the time does not suffice for all, the cases left out are spread over all kinds and sizes (`in_spread_order`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple, TypeVar

import msgspec

from profilerkit.backend import Backend, RunOptions
from profilerkit.devices.info import DeviceInfo
from profilerkit.error_text import error_line
from profilerkit.errors import InputError, ProfilerKitError
from profilerkit.protocols import Trains, find_capability
from profilerkit.times.run import Run
from profilerkit.times.sampling import Sampling, measure
from profilerkit.trace.records import OpRecord

from .calibration import Network, name_phase
from .cases import CalibrationCase, CalibrationNetwork, OperatorCall
from .kinds import find_family, find_kind, find_sizes
from .operator_names import plain_name
from .operators import count_moved_bytes, is_free
from .predicting import predict_trace
from .tables import EfficiencyTable, Point

#: Shorter calls are timed several at a time, so that the clock is no part of them.
_SHORTEST_SAMPLE = 200e-6
#: How often an operator is timed at least, and how often if the time does not suffice.
_SAMPLES, _FEWEST_SAMPLES = 20, 3

T = TypeVar("T")


def choose_clock(device: DeviceInfo, threads: int) -> Callable[[], float]:
    """Return the clock to measure by: on one thread of a CPU the time of the process, without other programs.

    Both clocks agree if nothing else runs.
    """
    return time.process_time if device.kind == "cpu" and threads == 1 else time.perf_counter


class _TablePoint(NamedTuple):
    """A point, and the table that it belongs to: the table of a kind or family in a dtype."""

    kind: str
    dtype: str
    point: Point


class MeasuredTables(NamedTuple):
    """The tables of the operators that were measured, and why others failed, by the names of their cases."""

    tables: tuple[EfficiencyTable, ...]
    failed: Mapping[str, str]


def measure_tables(
    backend: Backend,
    cases: Iterable[CalibrationCase],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> MeasuredTables:
    """Measure operators and return their tables; raises `InputError` if a case is not one operator, or if all fail.

    If the time is over before all are measured, the operators left out are spread over all kinds and sizes; but there
    is a product and traffic, for a peak and a bandwidth. An operator fails that the device refuses, for example in some
    dtype.
    """
    listed = in_spread_order(cases, lambda case: case.name.partition(" ")[0])
    points: dict[tuple[str, str], list[Point]] = {}
    failed: dict[str, str] = {}
    deadline = time.perf_counter() + seconds
    for index, case in enumerate(listed):
        left = deadline - time.perf_counter()
        if left <= 0 and {len(members[0].sizes) > 1 for members in points.values()} == {True, False}:
            break
        try:
            kind, dtype, point = _measure_case(backend, case, max(left, 0.0) / (len(listed) - index), clock)
        except ProfilerKitError:
            raise
        except Exception as error:
            failed[case.name] = f"{type(error).__name__}: {error_line(error)}"
        else:
            points.setdefault((kind, dtype), []).append(point)
    if not points:
        why = "".join(f"; {name}: {reason}" for name, reason in failed.items())
        raise InputError(f"the {backend.name} backend provides no operator to measure{why}")
    tables = [EfficiencyTable(kind, dtype, tuple(members)) for (kind, dtype), members in points.items()]
    return MeasuredTables(tuple(tables), failed)


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
    is_product = bool(operator.macs)
    kind = find_kind(operator) if is_product else find_family(operator)
    sizes, work = (find_sizes(operator), 2.0 * operator.macs) if is_product else ((moved,), moved)
    return _TablePoint(kind, dtype, Point(sizes, work, taken.shortest, taken.spread, host_seconds))


def _find_operator(backend: Backend, case: CalibrationCase, made: OperatorCall) -> OpRecord:
    """Return the one operator of a case; raises `InputError` if it is none or several."""
    trace = backend.trace(made.model, made.inputs)
    operators = [operator for operator in trace.operators if not is_free(operator)]
    if len(operators) != 1 or not operators[0].outputs:
        names = ", ".join(operator.operator for operator in operators) or f"none ({trace.failure})"
        raise InputError(f"the case {case.name!r} of a calibration is not one operator; it runs {names}")
    return operators[0]


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

    The shortest time counts, because other programs make a call longer, never shorter.
    """
    run = Run.of(call)
    deadline = time.perf_counter() + seconds
    once = _time_shortest(run, clock, deadline)
    sample = min(_SHORTEST_SAMPLE, max(seconds, 1e-6) / _FEWEST_SAMPLES)
    repeats = 1 if run is call else max(1, math.ceil(sample / once))  # a `Run` takes care of short calls itself

    def run_several() -> None:
        for _ in range(repeats):
            call()

    left = max(deadline - time.perf_counter(), 1e-6)
    is_short = left < _SAMPLES * repeats * once
    samples, warmup = (_FEWEST_SAMPLES, 0) if is_short else (_SAMPLES, None)
    sampling = Sampling(warmup=warmup, max_seconds=left, min_samples=samples, relative_precision=0.003, clock=clock)
    taken = measure(run if run is call else run_several, sampling)
    return _CallTime(taken.min / repeats, taken.median / taken.min - 1)


def _time_shortest(run: Run, clock: Callable[[], float], deadline: float) -> float:
    """Return the seconds of the shortest of four calls, or of fewer before a deadline; a second at the most."""
    shortest = 1.0
    for _ in range(4):
        shortest = min(shortest, max(run.seconds(clock), 1e-9))
        if time.perf_counter() >= deadline:
            break
    return shortest


def measure_networks(
    backend: Backend,
    networks: Sequence[CalibrationNetwork],
    device: DeviceInfo,
    seconds: float,
    options: RunOptions,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Network, ...]:
    """Predict and run networks, forward and in training steps, and return the ratios of both times.

    They run with some options, such as a number of threads or compiled. The median of the measured times counts, like
    in ``execution_time``, which a prediction predicts. ``device`` has no networks yet, which would correct predictions.
    """
    phases = ("forward",) if find_capability(backend, Trains) is None else ("forward", "training")
    runs = [(network, phase) for network in in_spread_order(networks, lambda item: item.family) for phase in phases]
    deadline = time.perf_counter() + seconds
    results: list[Network] = []
    for index, (network, phase) in enumerate(runs):
        left = deadline - time.perf_counter()
        if left <= 0 and index >= len(phases):  # one network in each phase is measured all the same
            break
        sampling = Sampling(max_seconds=max(left, 1e-6) / (len(runs) - index), min_samples=3, clock=clock)
        ratio = _measure_ratio(backend, network, device, replace(options, training=phase == "training"), sampling)
        results.append(Network(network.name, network.family, name_phase(phase, options.compile), ratio))
    return tuple(results)


def _measure_ratio(
    backend: Backend, network: CalibrationNetwork, device: DeviceInfo, options: RunOptions, sampling: Sampling
) -> float:
    """Return the measured time of a network over the predicted time."""
    trainer = find_capability(backend, Trains) if options.training else None
    trace = (backend.trace if trainer is None else trainer.trace_training)(network.model, network.inputs)
    predicted = predict_trace(trace, device, compiled=options.compile)
    with backend.run(network.model, network.inputs, options) as run:
        return measure(run, sampling).median / predicted.seconds
