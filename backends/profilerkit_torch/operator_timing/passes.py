"""How long each operator takes in each layer, in sessions of torch's profiler made for that."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, record_function

from profilerkit import InputError, ModelFailedError, ModelInputs, NotOfferedError, ProfilerBusyError
from profilerkit.backend import DeviceLike, RunOptions
from profilerkit.errors import explain_failed_step
from profilerkit.process.collector import collector_paused
from profilerkit.process.files import obstacle, write_elsewhere
from profilerkit.times.operator_times import OperatorTimes
from profilerkit.trace.cross_check import ObservedRun

from ..compat import OpOverloadPacket, has_kernel, is_profiler_enabled
from ..costs import Kind, classify
from ..layer_timing.unseen import find_unseen_layers
from ..running.profiler_sessions import run_profiler
from ..running.runs import prepare_run
from ..trace.layers import LayerStack
from ..untouched.caller_context import apart
from .events import Event, EventKind, OperatorLedger

__all__ = ["require_idle_profiler", "times_of_operators"]

_LAYER, _PASS = "profilerkit layer: ", "profilerkit pass"
_ENGINE = "autograd::engine::evaluate_function: "
#: A session is kept in memory whole until it is over; of a pass with more events one is in a session.
_EVENTS_OF_A_SESSION = 50_000
#: Calls of a device's driver, which the profiler lists beside the operators.
_DRIVER = re.compile(r"(cuda|cu|hip|ze|sycl)[A-Z]\w*|ur[A-Z]\w*")
_BACKWARD_FUNCTION = 1
_USER_SCOPE = 7


def times_of_operators(
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
    except InputError:  # a step of training refuses where nothing is to be trained
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


def require_idle_profiler() -> None:
    """Raise `ProfilerBusyError` where torch's profiler, of which there is one, is in use in this process."""
    if is_profiler_enabled():
        raise ProfilerBusyError(
            "operators are timed by torch's profiler, of which there is one per process, and it runs already; leave "
            "its block (torch.profiler.profile, torch.autograd.profiler) first, and try again"
        )


def _require_writable(export: str | os.PathLike[str]) -> None:
    wrong = obstacle(export)
    if wrong is not None:
        raise InputError(f"export={os.fspath(export)!r}: {wrong}")


def _time(
    model: nn.Module, inputs: ModelInputs, device: DeviceLike, passes: int, phase: str, export: Any
) -> OperatorTimes:
    """Run the model under the profiler, in sessions that hold so many passes as memory allows."""
    options = RunOptions(training=phase == "backward", device=device)
    with apart(), prepare_run(model, inputs, options) as call, collector_paused():
        activities, on_device = _activities({used.type for used in call.devices})
        ledger = OperatorLedger(phase, on_device, _is_free)
        layers = LayerStack(model)
        done, at_once = 0, 1
        is_compiled = any("torch.compile" in reason for reason in find_unseen_layers(model).values())

        def in_one() -> None:
            with record_function(_LAYER):
                call()

        run = in_one if is_compiled else call
        with nullcontext() if is_compiled else _ranges(layers):  # hooks would have it compiled anew
            while done < passes:
                number = min(at_once, passes - done)
                events = _session(run, number, activities, ledger.add)
                at_once = max(1, _EVENTS_OF_A_SESSION * number // max(1, events))
                done += number
            if export is not None:
                _session(run, 1, activities, None, export)
    notes = [f"{name}, whose operators have no layer" for name in layers.elsewhere]
    if is_compiled:
        notes.append("which layers the operators are of: torch.compile has compiled the model, or a part of it")
    runs = list(call.runs)
    if phase == "forward" and not is_compiled:
        calls = {path: ledger.calls.get(path, 0) for paths in layers.paths.values() for path in paths}
        runs.append(ObservedRun("the last profiled pass", calls=calls))
    return replace(ledger.times(), notes=tuple(notes), name_of=_find_profiled_name, runs=tuple(runs))


def _session(
    call: Callable[[], Any],
    passes: int,
    activities: list[ProfilerActivity],
    take: Callable[[list[Event]], None] | None,
    export: Any = None,
) -> int:
    """Run a few passes in one session, after one that goes unread; return how many events there were."""
    with run_profiler(activities) as session:
        if take is not None:
            call()
        for _ in range(passes):
            with record_function(_PASS):
                call()
    if export is not None:
        with write_elsewhere(export) as scratch:
            session.export_chrome_trace(scratch)
    events = session.events() if take is not None else None
    if events is None or take is None:
        return 0
    take([_event(event) for event in events if _is_counted(event)])
    return len(events)


@contextmanager
def _ranges(layers: LayerStack) -> Iterator[None]:
    """Have each call of a layer marked in what the profiler sees."""
    opened: list[Any] = []

    def enter(module: nn.Module, path: str, call: int) -> None:
        opened.append(record_function(f"{_LAYER}{path}"))
        opened[-1].__enter__()

    def leave(module: nn.Module, call: Any, arguments: Any, output: Any) -> None:
        opened.pop().__exit__(None, None, None)

    layers.on_enter, layers.on_leave = enter, leave
    with layers.follow():
        yield


def _activities(devices: set[str]) -> tuple[list[ProfilerActivity], bool]:
    """Return what the profiler is to watch, and whether it sees what operators do on the device."""
    supported = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}
    unsupported = sorted(devices - {"cpu", *supported})
    if unsupported:
        raise NotOfferedError(
            f"torch's profiler does not time what operators do on {unsupported[0]}; use layer_times there"
        )
    further = [supported[name] for name in sorted(devices & supported.keys())]
    return [ProfilerActivity.CPU, *further], bool(further)


def _is_counted(event: Any) -> bool:
    """Return whether an event counts: not one on a device, whose time its operator has, and no asynchronous one."""
    return "CPU" in str(event.device_type) and not event.is_async


def _event(event: Any) -> Event:
    name, kind = str(event.name), EventKind.OPERATOR
    if name == _PASS:
        kind = EventKind.PASS
    elif name.startswith(_LAYER):
        name, kind = name.removeprefix(_LAYER), EventKind.LAYER
    elif name.startswith(_ENGINE) or event.scope == _BACKWARD_FUNCTION:
        name, kind = name.removeprefix(_ENGINE), EventKind.NODE
    elif event.scope == _USER_SCOPE or _DRIVER.fullmatch(name):
        kind = EventKind.RANGE
    return Event(
        kind,
        name,
        event.thread,
        event.time_range.start / 1e6,  # microseconds
        event.time_range.end / 1e6,
        event.sequence_nr,
        event.fwd_thread or 0,
        tuple((kernel.name, kernel.duration / 1e6) for kernel in event.kernels),
    )


@cache
def _is_free(name: str) -> bool:
    """Return whether no overload of an operator does any arithmetic."""
    space, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, space, None), operator, None) if operator else None
    if not isinstance(packet, OpOverloadPacket):
        return False
    kinds = {classify(overload) for overload in _overloads(packet)} - {Kind.COMPOSITE}
    return bool(kinds) and kinds <= {Kind.FREE, Kind.VIEW}


def _overloads(packet: Any) -> Iterator[Any]:
    overloads = (getattr(packet, name) for name in packet.overloads())
    yield from (overload for overload in overloads if has_kernel(overload.name()))  # not TorchScript's


def _find_profiled_name(traced: str) -> str:
    """Return what the profiler calls an operator of the static trace: ``aten::mm`` for "aten.mm.default"."""
    space, _, rest = traced.partition(".")
    return traced if "::" in traced else f"{space}::{rest.rpartition('.')[0]}"
