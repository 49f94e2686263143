"""The events of torch's profiler, each inside the event around it: the times of operators and profiles come from them.

The profiler of torch 2.13 has an event for each operator, on the thread that ran it, and inside it in time the events
of the operators that it called; an event for each node of the gradient's graph, inside an event of the engine; and
events of the ranges that the user or profilerkit has opened. Nothing here needs torch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = [
    "ENGINE_PREFIX",
    "LAYER_RANGE",
    "PASS_RANGE",
    "Event",
    "EventKind",
    "Frame",
    "Kernel",
    "assign_layers",
    "find_profiled_name",
    "make_frames",
]

#: The names of our ranges around the call of a layer, whose path follows, and around a pass. The script of
#: ``profilerkit trace-script`` has a copy of both, because it runs without profilerkit.
LAYER_RANGE, PASS_RANGE = "profilerkit layer: ", "profilerkit pass"
#: The prefix of the names of the engine's events around nodes.
ENGINE_PREFIX = "autograd::engine::evaluate_function: "
#: Seconds by which the sum of a begin and a duration may differ from the true end.
_ROUNDING = 5e-10


def find_profiled_name(traced: str) -> str:
    """Return the profiler's name of an operator of the static trace.

    >>> find_profiled_name("aten.mm.default"), find_profiled_name("aten::mm"), find_profiled_name("flex_attention")
    ('aten::mm', 'aten::mm', 'flex_attention')
    """
    if "::" in traced or "." not in traced:
        return traced
    space, operator, *_ = traced.split(".")
    return f"{space}::{operator}"


class EventKind(Enum):
    """The kind of an event of the host."""

    PASS = "a pass"
    LAYER = "a call of a layer, whose path is the name"
    RANGE = "a range of the user's, or another that takes no time of its own"
    NODE = "a node of the gradient's graph, or the engine's work around one"
    OPERATOR = "an operator"
    DRIVER = "a call of the device's driver"


#: Kinds of events without time of their own: their time belongs to the event around them.
_RANGES = (EventKind.RANGE, EventKind.PASS)


class Kernel(NamedTuple):
    """A kernel that ran on a device, with its seconds."""

    name: str
    seconds: float


class Event(NamedTuple):
    """One event of the host, with its begin and end in seconds."""

    kind: EventKind
    name: str
    thread: Hashable
    start: float
    end: float
    #: For a node of the graph its sequence number, for an operator the next sequence number when it began; -1 for none.
    number: int = -1
    #: The thread that counted the number: of an operator its own, of a node the thread that made it; None if the
    #: profile does not tell.
    number_thread: Hashable = None
    kernels: tuple[Kernel, ...] = ()  #: the kernels that it started itself on a device
    args: Mapping[str, Any] = MappingProxyType({})  #: further facts in the file


@dataclass(eq=False)
class Frame:
    """An event, inside the event that was under way in its thread when it began."""

    event: Event
    outer: Frame | None  #: the frame that it ran in; None for an outermost frame
    inside: float = 0.0  #: the seconds of the events inside it, except ranges
    #: The path of the layer that it works for; None if the layer is not known, or there is none.
    layer: str | None = None

    @property
    def around(self) -> Iterator[Frame]:
        """The frame itself and the frames around it, the innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.outer

    @property
    def outer_frames(self) -> Iterable[Frame]:
        """The frames around it, the innermost first."""
        return () if self.outer is None else self.outer.around

    @property
    def is_backward(self) -> bool:
        """Whether it runs in a node of the gradient's graph."""
        return any(frame.event.kind is EventKind.NODE for frame in self.around)

    @property
    def is_work(self) -> bool:
        """Whether its time belongs to an operator."""
        return self.event.kind in (EventKind.OPERATOR, EventKind.NODE, EventKind.DRIVER)

    @property
    def seconds(self) -> float:
        """Its own seconds, without the events that it called."""
        return max(self.event.end - self.event.start - self.inside, 0.0)

    @property
    def caller(self) -> Frame | None:
        """The nearest frame around it that is no range; None if there is none."""
        return next((frame for frame in self.outer_frames if frame.event.kind not in _RANGES), None)

    @property
    def is_inner_node(self) -> bool:
        """Whether it is a node that lies in the engine's work around it."""
        if self.event.kind is not EventKind.NODE or self.caller is None:
            return False
        return self.caller.event.kind is EventKind.NODE and self.caller.event.name == self.event.name


def make_frames(events: Iterable[Event]) -> list[Frame]:
    """Return a frame for each event, in order of time: events of a thread are inside the events around them in time."""
    stacks: dict[Hashable, list[Frame]] = {}
    frames = []
    for event in sorted(events, key=lambda event: (event.start, -event.end, event.kind is not EventKind.PASS)):
        stack = stacks.setdefault(event.thread, [])
        while stack and stack[-1].event.end <= event.start + _ROUNDING:
            stack.pop()
        layer = event.name if event.kind is EventKind.LAYER else None
        frame = Frame(event, stack[-1] if stack else None, layer=layer)
        frames.append(frame)
        stack.append(frame)
        caller = frame.caller
        if caller is not None and event.kind not in _RANGES:
            caller.inside += event.end - event.start
    return frames


# The layers of events -------------------------------------------------------------------------------------------------
# A node of the gradient's graph has the number that the graph's sequence had when the operator that made it began: the
# layer of the operator is the layer of the node. A node that adds to a parameter's gradient has no number; it runs
# right after the node that computes this gradient, and gets the layer of that node.


def assign_layers(frames: Iterable[Frame]) -> None:
    """Give each frame without a layer the layer of the frame around it, and each node the layer of its maker.

    The frames are in order of time. The layer of a node stays None if no operator before it is known.
    """
    makers: defaultdict[Hashable, _NodeMakers] = defaultdict(_NodeMakers)
    last_nodes: dict[Hashable, str | None] = {}  # by thread, the layer of the last node
    for frame in frames:
        event = frame.event
        if event.kind is EventKind.NODE and not frame.is_inner_node:
            if event.number >= 0:
                last_nodes[event.thread] = makers[_find_number_thread(frame)].find_layer(event.number)
            frame.layer = last_nodes.get(event.thread)
        elif frame.layer is None and frame.outer is not None:
            frame.layer = frame.outer.layer
        if event.kind is EventKind.OPERATOR and event.number >= 0:
            makers[_find_number_thread(frame)].add(event.number, frame.layer)


def _find_number_thread(frame: Frame) -> Hashable:
    """Return the thread that counted the number of an operator or a node; None for the threads of the forward pass.

    Without the profile's word, work inside a node is numbered by its own thread: the layers that a checkpoint runs
    again, and their nodes.
    """
    if frame.event.number_thread is not None:
        return frame.event.number_thread
    is_inside_node = any(outer.event.kind is EventKind.NODE for outer in frame.outer_frames)
    return frame.event.thread if is_inside_node else None


class _NodeMakers:
    """The layers whose operators made the nodes of the gradient's graph, by the numbers of the graph's sequence."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._layers: list[str | None] = []

    def add(self, number: int, layer: str | None) -> None:
        """Note the number of the sequence when an operator in a layer began; a later operator replaces an earlier."""
        if self._numbers and self._numbers[-1] >= number:
            self._layers[-1] = layer
        else:
            self._numbers.append(number)
            self._layers.append(layer)

    def find_layer(self, number: int) -> str | None:
        """Return the layer of the operator that made a node; None if the operator is not known."""
        index = bisect_right(self._numbers, number) - 1
        return self._layers[index] if index >= 0 else None
