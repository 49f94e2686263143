"""How long each operator takes in each layer, in sessions of torch's profiler made for that."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from torch import nn
from torch.profiler import ProfilerActivity, record_function

from profilerkit import InputError, ModelFailedError, ModelInputs, NotOfferedError
from profilerkit.backend import DeviceLike, RunOptions
from profilerkit.errors import explain_failed_step
from profilerkit.process.collector import collector_paused
from profilerkit.process.files import obstacle, write_elsewhere
from profilerkit.times.operator_times import OperatorTimes
from profilerkit.trace.observed_runs import ObservedRun

from ..layer_timing.results import find_unseen_layers
from ..running.profiler_sessions import require_idle_profiler, run_profiler
from ..running.runs import prepare_run
from ..running.training_steps import NothingTrainedError
from ..trace.layers import EndedCall, LayerListener, LayerStack
from ..untouched.caller_context import apart
from .events import ENGINE_PREFIX, LAYER_RANGE, PASS_RANGE, Event, EventKind, Kernel
from .ledger import OperatorLedger
from .operators import find_profiled_name, is_free

__all__ = ["Watched", "choose_activities", "mark_layers", "measure_operator_times"]

#: A session is kept in memory whole until it is over; of a pass with more events one is in a session.
_EVENTS_OF_A_SESSION = 50_000


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
    last pass goes to a file. What the profiler itself adds is in the times: it is most where operators are small.

    Raises `ProfilerBusyError` where torch's profiler runs already, `InputError` for a number of passes below 1 and for
    a file that cannot be written, `NotOfferedError` for a device that the profiler does not see, `WithoutValuesError`
    for a model whose weights have no values, and `ModelFailedError` where the model raises.
    """
    if passes < 1:
        raise InputError(f"passes={passes}: at least one pass is needed to time anything")
    require_idle_profiler()
    if export is not None:
        _require_writable(export)
    forward = _time(model, inputs, device, passes, "forward", None if backward else export)
    if not backward:
        return forward
    try:
        gradients = _time(model, inputs, device, passes, "backward", export)
    except NothingTrainedError:
        if export is not None:
            _time(model, inputs, device, 1, "forward", export)
        note = "there is no backward pass: none of the model's outputs needs a gradient"
        return replace(forward, notes=(*forward.notes, note))
    except ModelFailedError as error:
        cause = error.__cause__ or error
        raise explain_failed_step(cause) from cause
    return replace(
        forward,
        operators=forward.operators + gradients.operators,
        whole={**forward.whole, **gradients.whole},
        layers={**forward.layers, **gradients.layers},
        notes=tuple(dict.fromkeys(forward.notes + gradients.notes)),
    )


def _require_writable(export: str | os.PathLike[str]) -> None:
    wrong = obstacle(export)
    if wrong is not None:
        raise InputError(f"export={os.fspath(export)!r}: {wrong}")


def _time(
    model: nn.Module,
    inputs: ModelInputs,
    device: DeviceLike,
    passes: int,
    phase: str,
    export: str | os.PathLike[str] | None,
) -> OperatorTimes:
    """Return the seconds of operators in one phase; a further pass is exported."""
    options = RunOptions(training=phase == "backward", device=device)
    with apart(), prepare_run(model, inputs, options) as call, collector_paused():
        activities, on_device = choose_activities({used.type for used in call.devices})
        ledger = OperatorLedger(phase, on_device, is_free)
        layers = LayerStack(model)
        is_compiled = any("torch.compile" in reason for reason in find_unseen_layers(model).values())
        run = partial(call_as_model, call) if is_compiled else call
        with nullcontext() if is_compiled else mark_layers(layers):  # hooks would have it compiled anew
            _run_passes(run, passes, activities, ledger)
            if export is not None:
                export_session(run, activities, export)
    notes = [f"{name}, whose operators have no layer" for name in layers.in_other_threads.counts]
    if is_compiled:
        notes.append("which layers the operators are of: torch.compile has compiled the model, or a part of it")
    runs = list(call.runs)
    if phase == "forward" and not is_compiled:
        calls = {path: ledger.calls.get(path, 0) for paths in layers.paths.values() for path in paths}
        runs.append(ObservedRun("the last profiled pass", calls=calls))
    return replace(ledger.times(), notes=tuple(notes), name_of=find_profiled_name, runs=tuple(runs))


def _run_passes(
    run: Callable[[], object], passes: int, activities: Sequence[ProfilerActivity], ledger: OperatorLedger
) -> None:
    """Run the model under the profiler, in sessions of as many passes as memory allows; the first has one."""
    remaining, of_session = passes, 1
    while remaining:
        of_session = min(of_session, remaining)
        events = run_session(run, of_session, activities, ledger.add)
        remaining -= of_session
        of_session = max(1, _EVENTS_OF_A_SESSION * of_session // max(1, events))


#: Calls of a device's driver, which the profiler lists beside the operators.
_DRIVER = re.compile(r"(cuda|cu|hip|ze|sycl)[A-Z]\w*|ur[A-Z]\w*")
#: Torch's numbers for what an event is of.
_BACKWARD_FUNCTION, _USER_SCOPE = 1, 7
_MICROSECOND = 1e6


class Watched(NamedTuple):
    """What the profiler is to watch, and whether it sees what operators do on the device."""

    activities: list[ProfilerActivity]
    on_device: bool


def choose_activities(devices: set[str]) -> Watched:
    """Return what the profiler is to watch for a model on these types of devices.

    Raises `NotOfferedError` for a device that it does not see.
    """
    supported = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}
    unsupported = sorted(devices - {"cpu", *supported})
    if unsupported:
        raise NotOfferedError(
            f"torch's profiler does not time what operators do on {unsupported[0]}; use layer_times there"
        )
    further = [supported[name] for name in sorted(devices & supported.keys())]
    return Watched([ProfilerActivity.CPU, *further], bool(further))


def run_session(
    call: Callable[[], object],
    passes: int,
    activities: Sequence[ProfilerActivity],
    take: Callable[[list[Event]], None],
) -> int:
    """Run a few passes in one session, after one that goes unread; return how many events the profiler had."""
    with run_profiler(list(activities)) as session:
        call()
        for _ in range(passes):
            _run_pass(call)
    events = session.events()
    if events is None:
        return 0
    take([_read_event(event) for event in events if _is_counted(event)])
    return len(events)


def export_session(
    call: Callable[[], object], activities: Sequence[ProfilerActivity], path: str | os.PathLike[str]
) -> None:
    """Run one pass in a session, and write the profiler's own trace of it to a file."""
    with run_profiler(list(activities)) as session:
        _run_pass(call)
    with write_elsewhere(path) as scratch:
        session.export_chrome_trace(scratch)


def _run_pass(call: Callable[[], object]) -> None:
    with record_function(PASS_RANGE):
        call()


def call_as_model(call: Callable[[], object]) -> None:
    """Run a pass whose operators are all of the model itself."""
    with record_function(LAYER_RANGE):
        call()


@contextmanager
def mark_layers(layers: LayerStack) -> Iterator[None]:
    """Have each call of a layer marked in what the profiler sees."""
    layers.report_to(_LayerMarker())
    with layers.follow():
        yield


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


def _is_counted(event: Any) -> bool:
    """Return whether an event counts: not one on a device, whose time its operator has, and no asynchronous one."""
    return "CPU" in str(event.device_type) and not event.is_async


def _read_event(event: Any) -> Event:
    """Return an event of the profiler's as one of ours."""
    name = str(event.name)
    kind = _find_kind(name, event.scope)
    if kind in (EventKind.LAYER, EventKind.NODE):
        name = name.removeprefix(LAYER_RANGE).removeprefix(ENGINE_PREFIX)
    return Event(
        kind,
        name,
        event.thread,
        event.time_range.start / _MICROSECOND,
        event.time_range.end / _MICROSECOND,
        event.sequence_nr,
        event.fwd_thread or 0,
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
