"""Records when the call of a module begins and ends, by a replacement of the function that calls the module."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

from profilerkit.process.restoring import restored

from ..compat.autograd import read_next_node_number
from ..compat.modules import name_of_call
from ..untouched.temporary_settings import deepen_recursion
from .clocks import EventClock, HostClock
from .timeline import Event, Kind

__all__ = ["CallRecorder"]

_ENTER, _LEAVE = Kind.ENTER, Kind.LEAVE
_thread = threading.get_ident


class CallRecorder:
    """Notes the calls of modules in one thread at a time.

    ``on_begin`` is called before an outermost call begins, ``on_output`` with its result, when the moment of its end is
    noted.
    """

    def __init__(
        self,
        clock: HostClock | EventClock,
        on_begin: Callable[[], None] = lambda: None,
        on_output: Callable[[Any], None] = lambda output: None,
    ) -> None:
        self.events: list[Event] = []
        self.clock: Callable[[], Any] = clock.read
        #: The thread in which a module runs, as ``"thread"``; empty if none runs. Each stand-in has this dict.
        self.running: dict[str, int] = {}
        #: The ``id`` of each module that was called in another thread while the model ran in one.
        self.elsewhere: set[int] = set()
        self._on_begin, self._on_output = on_begin, on_output

    @contextmanager
    def note_calls(self, modules: Mapping[int, nn.Module]) -> Iterator[None]:
        """Note the calls of these modules, by their indices in events; each gets a stand-in for its call function."""
        replaced: list[tuple[nn.Module, str, Any]] = []

        def take_back() -> None:
            for module, name, previous in reversed(replaced):
                if previous is None:
                    module.__dict__.pop(name, None)
                else:
                    module.__dict__[name] = previous

        with restored(take_back):
            for index, module in modules.items():
                name = name_of_call(module)
                replaced.append((module, name, module.__dict__.get(name)))
                module.__dict__[name] = TimedCall(self, module, name, index)
            yield

    def outermost(self, timed: TimedCall, args: Any, kwargs: Any) -> Any:
        """Run a call that is the outermost of its thread; do not note it if a module runs in another thread."""
        if self.running.setdefault("thread", _thread()) != _thread():
            self.elsewhere.add(id(timed.module))
            return timed.call(*args, **kwargs)
        try:
            self._on_begin()
            output = self._note(timed, args, kwargs)
            self._on_output(output)
            return output
        finally:
            self.running.clear()

    def _note(self, timed: TimedCall, args: Any, kwargs: Any) -> Any:
        """Run an outermost call, and note its begin, its end, and whether it has raised."""
        has_raised = True
        self.events.append((_ENTER, timed.index, self.clock(), read_next_node_number()))
        try:
            with deepen_recursion():
                output = timed.call(*args, **kwargs)
            has_raised = False
            return output
        finally:
            self.events.append((_LEAVE, has_raised, self.clock(), read_next_node_number()))


class TimedCall:
    """Calls a module and notes when the call began and ended; a copy of the module gets its usual function instead.

    It has what a call needs as its own attributes, because looking them up takes time.
    """

    __slots__ = ("append", "call", "clock", "index", "module", "name", "recorder", "running")

    def __init__(self, recorder: CallRecorder, module: nn.Module, name: str, index: int) -> None:
        self.recorder: CallRecorder = recorder
        self.module: nn.Module = module
        self.name: str = name
        self.index: int = index
        self.call: Callable[..., Any] = getattr(module, name)
        self.append: Callable[[Event], None] = recorder.events.append
        self.clock: Callable[[], Any] = recorder.clock
        self.running: dict[str, int] = recorder.running

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        if _thread() != self.running.get("thread"):
            return self.recorder.outermost(self, args, kwargs)
        self.append((_ENTER, self.index, self.clock(), read_next_node_number()))
        try:
            return self.call(*args, **kwargs)
        finally:
            self.append((_LEAVE, False, self.clock(), read_next_node_number()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy or pickle as the function that calls the copied module."""
        return getattr, (self.module, self.name)
