"""The time to note calls and nodes, measured on a layer and on nodes that do nothing."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from threading import get_ident
from typing import Any, NamedTuple

import torch
from torch import nn

from ..compat.autograd import read_next_node_number
from ..compat.modules import name_of_call
from .clocks import EventClock, HostClock
from .graph_hooks import GraphHooks
from .time_recorder import CallRecorder
from .timed_calls import Overhead, TimedRun
from .timeline import Event, Span

__all__ = ["measure_overhead"]

#: The number of calibrations: their median counts, so that one disturbed calibration decides nothing.
_CALIBRATIONS = 3
#: The rounds of a calibration; the least seconds of them count.
_ROUNDS = 4
#: The number of calls that are timed together.
_CALLS = 300
#: The number of nodes that are timed together.
_NODES = 100


def measure_overhead(clock: HostClock | EventClock) -> Overhead | None:
    """Return the seconds of one noted call and of one hook by the clock; takes milliseconds.

    None for a clock of the device: the work of the host does not appear on it.
    """
    if isinstance(clock, EventClock):
        return None
    calls = [_measure_calls(clock) for _ in range(_CALIBRATIONS)]
    hooks = [_measure_hooks(clock) for _ in range(_CALIBRATIONS)]
    inside, outside = map(median, zip(*calls, strict=True))
    return Overhead(inside, outside, median(hooks))


class _Empty(nn.Module):
    def forward(self) -> None: ...


class _Round(NamedTuple):
    """Seconds of a call of a layer that does nothing."""

    plain: float  #: of the call as it is
    bare: float  #: of the function that a stand-in calls, without the call around it
    noted: float  #: of the call with a stand-in
    within: float  #: between the two moments of a stand-in


def _measure_calls(clock: HostClock) -> tuple[float, float]:
    """Return the seconds that noting a call adds to the call itself, and to the call around it.

    They are the least seconds of noted calls minus the least of calls that are not noted.
    """
    rounds = [_measure_round(clock) for _ in range(_ROUNDS)]
    least = _Round(*map(min, zip(*rounds, strict=True)))
    inside = max(0.0, least.within - least.bare)
    return inside, max(0.0, least.noted - least.plain - inside)


def _measure_round(clock: HostClock) -> _Round:
    recorder, layer = CallRecorder(clock), _Empty()
    recorder.running["thread"] = get_ident()  # as inside an outermost call
    plain = _time(clock, layer, _CALLS)
    bare = _time(clock, getattr(layer, name_of_call(layer)), _CALLS)
    with recorder.note_calls({0: layer}):
        noted = _time(clock, layer, _CALLS)
    moments = [moment for _, _, moment, _ in recorder.events]
    within = median(end - start for start, end in zip(moments[::2], moments[1::2], strict=True))
    return _Round(plain, bare, noted, within)


def _measure_hooks(clock: HostClock) -> float:
    """Return the overhead of a node: the least seconds of a backward pass with hooks minus the least without."""
    events: list[Event] = []
    hooks = GraphHooks(events.append, clock.read, lambda number: False)
    with torch.inference_mode(False), torch.enable_grad():  # in any mode of the caller
        leaf = torch.zeros((), requires_grad=True, device="cpu")
        first = read_next_node_number()
        output = leaf
        for _ in range(_NODES):
            output = output.neg()
    call = TimedRun(is_whole=True).add("", None, first)

    def go_back() -> None:
        torch.autograd.grad(output, leaf, retain_graph=True)

    plain, hooked = [], []
    for _ in range(_ROUNDS):
        plain.append(_time(clock, go_back, 1))
        hooks.register([output], Span(first, call))
        hooked.append(_time(clock, go_back, 1))
        hooks.remove()
        events.clear()
    return max(0.0, min(hooked) - min(plain)) / _NODES


def _time(clock: HostClock, function: Callable[..., Any], calls: int) -> float:
    """Return the mean seconds of several calls."""
    start = clock.read()
    for _ in range(calls):
        function()
    return (clock.read() - start) / calls
