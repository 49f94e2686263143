"""The seconds of each operator in each layer: forward in inference, backward in training steps."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.profiler import ProfilerActivity, record_function

from profilerkit import InputError, ModelFailedError, ModelInputs, NotOfferedError
from profilerkit.backend import DeviceLike, RunOptions
from profilerkit.process.collector import collector_paused
from profilerkit.process.files import obstacle, write_elsewhere
from profilerkit.times.operator_times import OperatorTimes
from profilerkit.trace.observed_runs import ObservedRun

from ..compat.compiler import runs_compiled
from ..compat.operators import OpOverloadPacket, has_kernel
from ..costs import Kind, classify
from ..model.modules import list_modules
from ..running.profiler_sessions import require_idle_profiler, run_profiler
from ..running.runs import prepare_run
from ..running.training_steps import NothingTrainedError, explain_missing_steps
from ..trace.layers import EndedCall, LayerListener, LayerStack
from .events import ENGINE_PREFIX, LAYER_RANGE, PASS_RANGE, Event, EventKind, Kernel, find_profiled_name
from .ledger import OperatorLedger

__all__ = ["choose_activities", "is_free", "measure_operator_times"]

#: A session is kept in memory until it ends; a pass with more events has a session of its own.
_EVENTS_OF_A_SESSION = 50_000
_COMPILED = "which layers the operators are of: torch.compile has compiled the model, or a part of it"


def measure_operator_times(
    model: nn.Module,
    inputs: ModelInputs,
    device: DeviceLike = None,
    passes: int = 10,
    backward: bool = True,
    export: str | os.PathLike[str] | None = None,
) -> OperatorTimes:
    """Return the seconds of each operator in each layer, forward for inference and backward in training steps.

    On a CUDA or XPU device they are the seconds of the kernels there. With ``export`` the profiler's own trace of the
    last pass goes to a file. The times include the overhead of the profiler, which matters most for small operators.

    Where a training step raises, as with an operator without a gradient, the times are those of forward passes alone,
    and a note says why.

    Raises `ProfilerBusyError` if torch's profiler runs already, `InputError` for a number of passes below 1 and for
    a file that cannot be written, `NotOfferedError` for a device that the profiler does not see, `WithoutValuesError`
    for a model whose weights have no values, and `ModelFailedError` if the model raises for inference, or a training
    step has not enough memory.
    """
    if passes < 1:
        raise InputError(f"passes={passes}: at least one pass is needed to time anything")
    require_idle_profiler()
    if export is not None and (wrong := obstacle(export)) is not None:
        raise InputError(f"export={os.fspath(export)!r}: {wrong}")
    forward = _time(model, inputs, RunOptions(device=device), passes, export)
    if not backward:
        return forward
    try:  # the file of a training step replaces that of a forward pass
        steps = _time(model, inputs, RunOptions(training=True, device=device), passes, export)
    except (NothingTrainedError, ModelFailedError) as error:
        return replace(forward, notes=(*forward.notes, explain_missing_steps(error)))
    return replace(  # the runs of the forward phase alone are compared with a trace
        forward,
        operators=forward.operators + steps.operators,
        whole={**forward.whole, **steps.whole},
        layers={**forward.layers, **steps.layers},
        notes=tuple(dict.fromkeys(forward.notes + steps.notes)),
    )


def _time(
    model: nn.Module, inputs: ModelInputs, options: RunOptions, passes: int, export: str | os.PathLike[str] | None
) -> OperatorTimes:
    """Return the seconds of each operator, backward for training steps, else forward; a further pass is exported."""
    is_compiled = any(map(runs_compiled, list_modules(model)))  # with hooks torch would compile it anew
    with prepare_run(model, inputs, options) as call, collector_paused():
        activities, on_device = choose_activities({used.type for used in call.devices})
        ledger = OperatorLedger("backward" if options.training else "forward", on_device, is_free)
        layers = LayerStack(model)
        layers.report_to(_LayerMarker())
        run = partial(_run_in_range, LAYER_RANGE, call) if is_compiled else call
        with nullcontext() if is_compiled else layers.follow():
            _run_passes(run, passes, activities, ledger)
            if export is not None:
                _export_session(run, activities, export)
    times = replace(ledger.times(), name_of=find_profiled_name, runs=tuple(call.runs))
    return replace(times, notes=(_COMPILED,)) if is_compiled else _add_layers(times, ledger, layers)


def _add_layers(times: OperatorTimes, ledger: OperatorLedger, layers: LayerStack) -> OperatorTimes:
    """Return times with notes on layers in other threads, and with the calls of layers in the last forward pass."""
    notes = tuple(f"{name}, whose operators have no layer" for name in layers.in_other_threads.counts)
    calls = {path: ledger.calls.get(path, 0) for paths in layers.paths.values() for path in paths}
    observed = () if ledger.phase == "backward" else (ObservedRun("the last profiled pass", calls=calls),)
    return replace(times, notes=notes, runs=(*times.runs, *observed))


def _run_passes(
    run: Callable[[], object], passes: int, activities: Sequence[ProfilerActivity], ledger: OperatorLedger
) -> None:
    """Run the model under the profiler, in sessions of as many passes as memory allows; the first has one pass."""
    remaining, in_session = passes, 1
    while remaining:
        in_session = min(in_session, remaining)
        events = _run_session(run, in_session, activities)
        ledger.add(events)
        remaining -= in_session
        in_session = max(1, _EVENTS_OF_A_SESSION * in_session // max(1, len(events)))


# Sessions of the profiler ---------------------------------------------------------------------------------------------


def _run_session(call: Callable[[], object], passes: int, activities: Sequence[ProfilerActivity]) -> list[Event]:
    """Run a few passes in one session, after a pass whose events are left out, and return the events of the host."""
    with run_profiler(list(activities)) as session:
        call()
        for _ in range(passes):
            _run_in_range(PASS_RANGE, call)
    events = session.events() or ()
    # The kernels on a device are with the operators that started them; asynchronous events take no time of a thread.
    return [_read_event(event) for event in events if "CPU" in str(event.device_type) and not event.is_async]


def _export_session(
    call: Callable[[], object], activities: Sequence[ProfilerActivity], path: str | os.PathLike[str]
) -> None:
    """Run one pass in a session, and write the profiler's own trace of it to a file."""
    with run_profiler(list(activities)) as session:
        _run_in_range(PASS_RANGE, call)
    with write_elsewhere(path) as scratch:
        session.export_chrome_trace(scratch)


def _run_in_range(name: str, call: Callable[[], object]) -> None:
    """Run one pass inside a range of the profiler."""
    with record_function(name):
        call()


class _Watched(NamedTuple):
    """The activities that the profiler records, and whether they include the kernels on the device."""

    activities: list[ProfilerActivity]
    on_device: bool


def choose_activities(devices: set[str]) -> _Watched:
    """Return the activities to record for a model on these types of devices.

    Raises `NotOfferedError` for a device that the profiler does not see.
    """
    supported = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}
    unsupported = sorted(devices - {"cpu", *supported})
    if unsupported:
        raise NotOfferedError(
            f"torch's profiler does not time what operators do on {unsupported[0]}; use layer_times there"
        )
    further = [supported[name] for name in sorted(devices & supported.keys())]
    return _Watched([ProfilerActivity.CPU, *further], bool(further))


class _LayerMarker(LayerListener):
    """Opens a range of the profiler for each call of a layer."""

    def __init__(self) -> None:
        self._ranges: list[Any] = []

    def begin_layer(self, module: nn.Module, path: str, call: int) -> None:
        """Open the range of a layer."""
        self._ranges.append(record_function(f"{LAYER_RANGE}{path}"))
        self._ranges[-1].__enter__()

    def end_layer(self, module: nn.Module, call: EndedCall) -> None:
        """Close the range of the innermost layer."""
        self._ranges.pop().__exit__(None, None, None)


@cache
def is_free(name: str) -> bool:
    """Return whether no overload of an operator does any arithmetic; False for an operator that torch does not know.

    An overload that is composed of other operators is ignored: the profiler records these operators too.
    """
    space, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, space, None), operator, None) if operator else None
    if not isinstance(packet, OpOverloadPacket):
        return False
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    # Overloads for TorchScript alone have no kernel.
    kinds = {classify(overload) for overload in overloads if has_kernel(overload.name())} - {Kind.COMPOSITE}
    return bool(kinds) and kinds <= {Kind.FREE, Kind.VIEW}


# The profiler's events as ours ----------------------------------------------------------------------------------------

#: Calls of a device's driver, which the profiler lists beside the operators.
_DRIVER = re.compile(r"(cuda|cu|hip|ze|sycl)[A-Z]\w*|ur[A-Z]\w*")
#: Torch's numbers for the scopes of events.
_BACKWARD_FUNCTION, _USER_SCOPE = 1, 7
_MICROSECOND = 1e6


def _read_event(event: Any) -> Event:
    """Convert an event of the profiler to an `Event`."""
    kind = _find_kind(event.name, event.scope)
    name = event.name
    if kind in (EventKind.LAYER, EventKind.NODE):
        name = name.removeprefix(LAYER_RANGE).removeprefix(ENGINE_PREFIX)
    return Event(
        kind,
        name,
        event.thread,
        event.time_range.start / _MICROSECOND,
        event.time_range.end / _MICROSECOND,
        event.sequence_nr,
        event.fwd_thread if kind is EventKind.NODE else event.thread,
        tuple(Kernel(kernel.name, kernel.duration / _MICROSECOND) for kernel in event.kernels),
    )


def _find_kind(name: str, scope: int) -> EventKind:
    if name == PASS_RANGE:
        return EventKind.PASS
    if name.startswith(LAYER_RANGE):
        return EventKind.LAYER
    if name.startswith(ENGINE_PREFIX) or scope == _BACKWARD_FUNCTION:
        return EventKind.NODE
    if scope == _USER_SCOPE or _DRIVER.fullmatch(name):
        return EventKind.RANGE
    return EventKind.OPERATOR
