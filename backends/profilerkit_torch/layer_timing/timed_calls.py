"""The timed passes of a model, and the calls of its layers in them.

Measuring adds to the time of a call: the amount, and whether it is taken out, is computed here too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from profilerkit.trace.layer_paths import walk_outwards

__all__ = [
    "Call",
    "CallSeconds",
    "Elapsed",
    "Overhead",
    "TimedRun",
    "TimedRuns",
    "sum_inner_calls",
]


@dataclass(slots=True)
class Overhead:
    """Seconds that measuring adds for each noted call, and for each hook of a node.

    A stand-in calls each layer, and reads the clock before and after it, at ``|``. Its other work falls to two layers::

        the layer around it    .....................................
        stand-in                      ....|.................|....
        the layer itself                     ..............
    """

    inside: float = 0.0  #: between the two moments: it is added to the layer itself
    outside: float = 0.0  #: before the first and after the second: it is added to the layer around it
    hook: float = 0.0  #: for a hook of a node, which is added to the layer of the node


@dataclass(eq=False, slots=True)
class Elapsed:
    """Seconds of a call in one direction, and how often measuring added to them."""

    overhead: Overhead  #: the seconds that measuring adds each time
    seconds: float = 0.0  #: the seconds as they were measured
    #: How often the call itself was noted in this direction; in the backward pass a checkpoint repeats it.
    calls: int = 0
    inner_calls: int = 0  #: the number of noted calls that it made
    hooks: int = 0  #: how many hooks of its nodes have run

    @property
    def extra_seconds(self) -> float:
        """Seconds that measuring added, by its calibration."""
        by = self.overhead
        return self.calls * by.inside + self.inner_calls * by.outside + self.hooks * by.hook

    @property
    def is_doubtful(self) -> bool:
        """Whether the calibration says that measuring added all of the seconds or more, which cannot be."""
        return 0 < self.seconds <= self.extra_seconds

    @property
    def taken_out(self) -> float:
        """Seconds of measuring that are taken out: none if no seconds would be left."""
        return self.extra_seconds if self.extra_seconds < self.seconds else 0.0

    @property
    def own_seconds(self) -> float:
        """Seconds without the seconds of measuring."""
        return self.seconds - self.taken_out


@dataclass(eq=False, slots=True)
class Call:
    """One call of a layer: its own seconds in both directions, and the time that the measurement added."""

    path: str
    index: int  #: its number among the calls of this layer in the pass
    order: int  #: its number among the calls of all layers in the pass
    run: TimedRun
    outer: Call | None  #: the call of the layer around it; None if the user's code made the call
    first_node: int  #: the number of the next node of the graph when the call began
    forward: Elapsed  #: its own seconds in the forward pass
    backward: Elapsed  #: its own seconds in the backward pass
    nodes: int = 0  #: how many nodes of the graph were made in it

    @property
    def outermost(self) -> Call:
        """The call by the user's own code around this call."""
        call = self
        while call.outer is not None:
            call = call.outer
        return call

    def get_elapsed(self, is_backward: bool) -> Elapsed:
        """Return its own seconds on the way back, or forward."""
        return self.backward if is_backward else self.forward


@dataclass(eq=False, slots=True)
class TimedRun:
    """One pass of the model."""

    is_whole: bool  #: whether the model itself was called; else the user's own code has called layers of it
    overhead: Overhead = field(default_factory=Overhead)  #: the seconds that measuring adds
    calls: list[Call] = field(default_factory=list)  #: its calls in the order in which they began, outer ones first
    calls_by_path: dict[str, list[Call]] = field(default_factory=dict)  #: the same by the path of the layer
    #: The numbers of the graph's nodes that its outermost calls have made.
    node_numbers: list[range] = field(default_factory=list)
    failed: bool = False  #: whether the model has raised in it
    has_backward: bool = False  #: whether a backward pass came through it

    @property
    def is_open(self) -> bool:
        """Whether further calls may belong to it: it consists of calls of layers, and no backward pass came yet."""
        return not (self.is_whole or self.has_backward)

    def add(self, path: str, outer: Call | None, first_node: int) -> Call:
        """Return a new call of the layer at a path."""
        earlier = self.calls_by_path.setdefault(path, [])
        forward, backward = Elapsed(self.overhead), Elapsed(self.overhead)
        call = Call(path, len(earlier), len(self.calls), self, outer, first_node, forward, backward)
        earlier.append(call)
        self.calls.append(call)
        return call

    def list_calls(self, paths: Sequence[str]) -> list[Call]:
        """Return the calls of a layer that has these paths, in their order."""
        calls = [call for path in paths for call in self.calls_by_path.get(path, ())]
        return sorted(calls, key=lambda call: call.order)

    def find_last_call(self, paths: Sequence[str]) -> Call:
        """Return the last call of a layer that has these paths, else of the nearest layer around it that was called.

        If no such layer was called, return the first call of the pass, which has at least one.
        """
        around = walk_outwards(paths[0]) if paths else ()
        for path in (*paths, *around):
            if path in self.calls_by_path:
                return self.calls_by_path[path][-1]
        return self.calls[0]


class TimedRuns:
    """The passes of a model, of which the last are kept."""

    def __init__(self, keep: int, overhead: Overhead) -> None:
        self.kept: deque[TimedRun] = deque(maxlen=keep)
        self.begun = 0  #: how many passes have begun, those included that are not kept
        self._overhead = overhead

    def begin_call(self, path: str, outer: Call | None, first_node: int) -> Call:
        """Return a new call; an outermost call begins a new pass if it calls the whole model or no pass is open."""
        is_whole = path == ""
        if not self.kept or (outer is None and (is_whole or not self.kept[-1].is_open)):
            self.kept.append(TimedRun(is_whole, self._overhead))
            self.begun += 1
        return self.kept[-1].add(path, outer, first_node)

    def has_made(self, number: int) -> bool:
        """Return whether a node of the graph was made in a pass that is kept."""
        return any(number in made for run in reversed(self.kept) for made in run.node_numbers)


class CallSeconds(NamedTuple):
    """A call with its seconds forward and backward, including the calls inside."""

    call: Call
    forward: float
    backward: float


def sum_inner_calls(run: TimedRun) -> Iterator[CallSeconds]:
    """Yield each call of a pass with its seconds, including the calls inside, in the order in which the calls began."""
    forward = [call.forward.own_seconds for call in run.calls]
    backward = [call.backward.own_seconds for call in run.calls]
    for call in reversed(run.calls):  # inner calls before outer calls
        if call.outer is not None:
            forward[call.outer.order] += forward[call.order]
            backward[call.outer.order] += backward[call.order]
    return map(CallSeconds, run.calls, forward, backward)
