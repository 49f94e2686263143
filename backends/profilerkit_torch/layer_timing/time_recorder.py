"""Stand-ins for what calls a module, which note when it begins and ends, and what they cost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import nn

from profilerkit.process.locks import Lock
from profilerkit.process.restoring import restored

from ..compat import name_of_call, next_node
from ..untouched.temporary_settings import deepen_recursion
from .clocks import EventClock, HostClock
from .overhead import Overhead
from .timeline import Event, Kind

__all__ = ["CallRecorder", "TimedCall", "measure_overhead"]

_ENTER, _LEAVE = Kind.ENTER, Kind.LEAVE
_thread = threading.get_ident


class CallRecorder:
    """Notes the calls of modules in one thread at a time.

    ``on_output`` is called with what an outermost call returned, when the moment of its end is noted; ``on_begin``
    before one begins.
    """

    def __init__(self, clock: HostClock | EventClock) -> None:
        self.events: list[Event] = []
        self.clock: Callable[[], Any] = clock.read
        self.running: list[int] = [0]  # the thread in which a module runs
        #: By the index of a module, its calls in another thread while the model ran in one.
        self.elsewhere: Counter[int] = Counter()
        self.on_begin: Callable[[], None] = lambda: None
        self.on_output: Callable[[Any], None] = lambda output: None
        self._busy = Lock(reentrant=False)

    @contextmanager
    def note_calls(self, modules: Sequence[tuple[int, nn.Module]]) -> Iterator[None]:
        """Note the calls of these modules, pairs of its index and itself; each gets a stand-in for what calls it."""
        replaced: list[tuple[nn.Module, str, Any]] = []

        def take_back() -> None:
            for module, name, previous in reversed(replaced):
                if previous is None:
                    module.__dict__.pop(name, None)
                else:
                    module.__dict__[name] = previous

        with restored(take_back):
            for index, module in modules:
                name = name_of_call(module)
                replaced.append((module, name, module.__dict__.get(name)))
                module.__dict__[name] = TimedCall(self, module, name, index)
            yield

    def outermost(self, timed: TimedCall, args: Any, kwargs: Any) -> Any:
        """Run a call that no other one of this thread is around; unnoted where a module runs in another thread."""
        if not self._busy.acquire(blocking=False):
            self.elsewhere[timed.index] += 1
            return timed.call(*args, **kwargs)
        try:
            self.on_begin()
            self.running[0] = _thread()
            raised = True
            self.events.append((_ENTER, timed.index, self.clock(), next_node()))
            try:
                with deepen_recursion():
                    output = timed.call(*args, **kwargs)
                raised = False
            finally:
                self.events.append((_LEAVE, raised, self.clock(), next_node()))
                self.running[0] = 0
            self.on_output(output)
            return output
        finally:
            self._busy.release()


class TimedCall:
    """Calls a module and notes when that began and ended; a copy of the module gets a way of its own."""

    __slots__ = ("append", "call", "clock", "index", "module", "name", "recorder", "running")

    def __init__(self, recorder: CallRecorder, module: nn.Module, name: str, index: int) -> None:
        self.recorder: CallRecorder = recorder
        self.module: nn.Module = module
        self.name: str = name
        self.index: int = index
        self.call: Callable[..., Any] = getattr(module, name)
        self.append: Callable[[Event], None] = recorder.events.append
        self.clock: Callable[[], Any] = recorder.clock
        self.running: list[int] = recorder.running

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        if _thread() != self.running[0]:
            return self.recorder.outermost(self, args, kwargs)
        self.append((_ENTER, self.index, self.clock(), next_node()))
        try:
            return self.call(*args, **kwargs)
        finally:
            self.append((_LEAVE, False, self.clock(), next_node()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy or pickle as what the copied module is called by."""
        return getattr, (self.module, self.name)


def measure_overhead(clock: HostClock | EventClock, rounds: int = 4) -> Overhead | None:
    """Return what one noted call and one hook cost by the clock, measured on ones that do nothing; takes milliseconds.

    Each figure is the middle one of three, so that one disturbed calibration decides nothing. None for a clock of the
    device's: what the host does costs that clock no time.
    """
    if isinstance(clock, EventClock):
        return None
    inside, outside = zip(*(_overhead_of_calls(clock, rounds) for _ in range(3)), strict=True)
    hooks = [_overhead_of_hooks(clock, rounds) for _ in range(3)]
    return Overhead(median(inside), median(outside), median(hooks))


def _overhead_of_calls(clock: HostClock, rounds: int, calls: int = 300) -> tuple[float, float]:
    recorder, empty = CallRecorder(clock), _Empty()
    recorder.running[0] = _thread()
    plain, bare, noted, within = [], [], [], []
    for _ in range(rounds):
        plain.append(_seconds(clock, empty, calls))
        bare.append(_seconds(clock, getattr(empty, name_of_call(empty)), calls))
        recorder.events.clear()
        with recorder.note_calls([(0, empty)]):
            noted.append(_seconds(clock, empty, calls))
        moments = [moment for _, _, moment, _ in recorder.events]
        within.append(median(end - start for start, end in zip(moments[::2], moments[1::2], strict=True)))
    inside = max(0.0, min(within) - min(bare))
    return inside, max(0.0, min(noted) - min(plain) - inside)


def _overhead_of_hooks(clock: HostClock, rounds: int, nodes: int = 100) -> float:
    from .graph_hooks import GraphHooks
    from .timeline import Span, TimedRun

    events: list[Event] = []
    hooks = GraphHooks(events.append, clock.read, {}, lambda number: False)
    with torch.inference_mode(False), torch.enable_grad():  # whatever mode the caller is in
        leaf = torch.zeros((), requires_grad=True, device="cpu")
        first = next_node()
        output = leaf
        for _ in range(nodes):
            output = output.neg()
    call = TimedRun(0, True).add("", None, first)

    def backward() -> None:
        torch.autograd.grad(output, leaf, retain_graph=True)

    plain, hooked = [], []
    for _ in range(rounds):
        plain.append(_seconds(clock, backward, 1))
        hooks.register([output], Span(first, call, [first], [call]))
        hooked.append(_seconds(clock, backward, 1))
        hooks.remove()
        events.clear()
    return max(0.0, min(hooked) - min(plain)) / nodes


def _seconds(clock: HostClock, function: Callable[..., Any], calls: int) -> float:
    """Return the seconds of one of several calls."""
    start = clock.read()
    for _ in range(calls):
        function()
    return (clock.read() - start) / calls


class _Empty(nn.Module):
    def forward(self) -> None: ...
