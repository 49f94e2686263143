"""The events of torch's profiler, as operators are timed by them.

What the profiler gives, found out with torch 2.13: an event for each operator with those it called inside it in time,
on the thread that ran it; an event for each node of the gradient's graph, around which lies the engine's own; and the
ranges that the user or we have opened. A node has the number that the graph's sequence had when the operator began
that made it: its layer is where that one ran. A node that adds to a parameter's gradient has no number and runs right
after the one that gave it the gradient, whose layer it gets. Nothing here needs torch.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["ENGINE_PREFIX", "LAYER_RANGE", "PASS_RANGE", "Event", "EventKind", "Kernel"]

#: What our ranges are called around the call of a layer, whose path follows, and around a pass. The script of
#: ``profilerkit trace-script`` has both once more, for it runs where profilerkit is not installed.
LAYER_RANGE, PASS_RANGE = "profilerkit layer: ", "profilerkit pass"
#: What the names of the engine's events around nodes begin with.
ENGINE_PREFIX = "autograd::engine::evaluate_function: "


class EventKind(Enum):
    """What an event is."""

    PASS = "a pass, as we marked it"
    LAYER = "a call of a layer, whose path is the name"
    RANGE = "a range of the user's"
    NODE = "a node of the gradient's graph, or the engine's work around one"
    OPERATOR = "an operator"


class Kernel(NamedTuple):
    """What ran on a device, and how long."""

    name: str
    seconds: float


class Event(NamedTuple):
    """One event: where it began and ended in seconds, and the kernels that it started itself on a device."""

    kind: EventKind
    name: str
    thread: int
    start: float
    end: float
    number: int = -1
    forward_thread: int = 0
    kernels: tuple[Kernel, ...] = ()
