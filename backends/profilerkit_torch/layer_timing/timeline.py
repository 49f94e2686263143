"""From moments noted while a model runs to the seconds of each call of its layers, forward and backward.

A recorder notes an event where a layer's call begins or ends, and where a node of the gradient's graph begins. The time
between one event and the next belongs to whoever runs after the first: forward to the innermost call, backward to the
call in which the node was made. So nothing is counted twice, and what a layer takes is what its calls and those inside
them take. Nothing here needs torch: moments are numbers, or what a clock makes numbers of.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from profilerkit.backend_kit.call_stack import CallStack
from profilerkit.trace.rows import parent_path

from .overhead import Elapsed, Overhead

__all__ = ["Accumulation", "Call", "Event", "Kind", "Node", "Span", "TimedRun", "Timeline", "inclusive"]


class Kind(IntEnum):
    """The kind of an event. Its number is one of the graph's sequence for calls, of a backward pass for the others."""

    ENTER = 0  #: a call of a layer begins; the subject is the layer's index
    LEAVE = 1  #: the innermost call ends; the subject is True for an outermost one that raised
    STARTS = 2  #: a node begins; the subject is a `Node`, an `Accumulation`, or None for a node of no layer's
    ENDS = 3  #: a node ends after which another's nodes, which are not seen, may come
    OVER = 4  #: a backward pass is over
    SKIP = 5  #: what went by since the last event was the recorder's own work
    FORGET = 6  #: backward passes that have begun have raised


Event: TypeAlias = tuple[Kind, Any, Any, int]


@dataclass(eq=False, slots=True)
class Call:
    """One call of a layer: its own seconds in both directions, and what measuring added to them."""

    path: str
    index: int
    order: int
    run: TimedRun
    outer: Call | None
    first: int
    forward: Elapsed
    backward: Elapsed
    nodes: int = 0

    @property
    def outermost(self) -> Call:
        """The call by the user's own code in which this one was made."""
        call = self
        while call.outer is not None:
            call = call.outer
        return call


@dataclass(eq=False, slots=True)
class TimedRun:
    """One pass of the model: its calls in the order in which they began, outer ones first."""

    number: int
    whole: bool
    overhead: Overhead = field(default_factory=Overhead)
    calls: list[Call] = field(default_factory=list)
    of_path: dict[str, list[Call]] = field(default_factory=dict)
    failed: bool = False
    has_backward: bool = False

    def add(self, path: str, outer: Call | None, first: int) -> Call:
        """Return a new call of the layer at a path."""
        earlier = self.of_path.setdefault(path, [])
        forward, backward = Elapsed(self.overhead), Elapsed(self.overhead)
        call = Call(path, len(earlier), len(self.calls), self, outer, first, forward, backward)
        earlier.append(call)
        self.calls.append(call)
        return call

    def last_call(self, paths: Sequence[str]) -> Call | None:
        """Return the last call of a layer that has these paths, else of the nearest layer around it that was called."""
        for path in paths:
            if path in self.of_path:
                return self.of_path[path][-1]
        outer = parent_path(paths[0]) if paths else None
        while outer is not None and outer not in self.of_path:
            outer = parent_path(outer)
        return self.of_path[outer][-1] if outer is not None else self.calls[0]


class Node(NamedTuple):
    """A node of the gradient's graph: the call in which it was made, and its number in the sequence of nodes.

    ``runs_layers`` is True if it may have been made to run layers, as the function of a checkpoint is that enters
    autograd again; those layers' calls began after it was made.
    """

    call: Call | None
    number: int
    runs_layers: bool = False


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A node that adds a gradient to a parameter: the paths of the layer that owns it."""

    paths: tuple[str, ...]


class Span(NamedTuple):
    """One outermost call and where in the sequence of the graph's nodes each call inside it was the innermost."""

    first: int
    outermost: Call | None
    marks: list[int]
    owners: list[Call | None]

    def owner(self, number: int) -> Call | None:
        """Return the call in which a node was made; one made later, for what came out, is the outermost call's."""
        at = bisect_right(self.marks, number) - 1
        return self.owners[at] if at >= 0 else self.outermost


@dataclass(slots=True)
class _Frame:
    """Something under way: a call, or a backward pass with the call whose node runs."""

    call: Call | None
    task: int | None = None
    ended: bool = False
    node: Node | None = None
    #: By the index of a layer, how often this node has run it again.
    again: Counter[int] = field(default_factory=Counter)


class Timeline:
    """Follows the events, in their order.

    Args:
        layers: Every layer under every path it has, the root first; an event names a layer by its index here.
        overhead: What measuring adds; the times follow where it is changed.
        seconds: What makes seconds of moments.
        ready: Says whether a moment can be made seconds of without waiting for a device.
        keep: How many passes are kept; of more, the last.
    """

    def __init__(
        self,
        layers: Sequence[tuple[str, Any]],
        overhead: Overhead | None = None,
        seconds: Callable[[Sequence[Any]], Sequence[float]] = lambda moments: moments,
        ready: Callable[[Any], bool] = lambda moment: True,
        keep: int = 100,
    ) -> None:
        self.runs: deque[TimedRun] = deque(maxlen=keep)
        self.span: Span | None = None
        self._layers = [layer for _, layer in layers]
        self._stack = CallStack(layers)
        self._overhead = overhead or Overhead()
        self._seconds = seconds
        self._ready = ready
        self._frames: list[_Frame] = []
        self._numbers = 0
        #: (moment, call whose time begins there, whether backward), not yet made seconds of.
        self._moments: list[tuple[Any, Call | None, bool]] = []
        self._ranges: deque[tuple[int, int]] = deque(maxlen=4 * keep)
        self._handlers: Mapping[Kind, Callable[[Any, int], None]] = {
            Kind.ENTER: self._enter,
            Kind.LEAVE: self._leave,
            Kind.STARTS: self._starts,
            Kind.ENDS: self._ends,
            Kind.OVER: self._over,
            Kind.SKIP: self._skip,
            Kind.FORGET: self._forget,
        }

    def advance(self, events: Sequence[Event]) -> None:
        """Take further events, and make seconds of their moments where nothing has to be waited for."""
        for kind, subject, moment, number in events:
            self._handlers[kind](subject, number)
            frame = self._frames[-1] if self._frames else None
            self._moments.append((moment, frame.call if frame else None, self._is_backward()))
        if self._moments and not self._frames and self._ready(self._moments[-1][0]):
            self.settle()

    def settle(self) -> None:
        """Make seconds of the moments so far and give them to their calls."""
        moments, self._moments = self._moments, []
        if not moments:
            return
        seconds = self._seconds([moment for moment, _, _ in moments])
        for (_, call, backward), start, end in zip(moments, seconds, seconds[1:], strict=False):
            if call is None:
                continue
            if backward:
                call.backward.seconds += end - start
            else:
                call.forward.seconds += end - start
        if self._frames:
            self._moments.append(moments[-1])

    def is_followed(self, number: int) -> bool:
        """Return whether a node of the graph was made in a call that is known."""
        return any(first <= number < last for first, last in reversed(self._ranges))

    # One method for each kind of event -----------------------------------------------------------------------------

    def _enter(self, index: int, number: int) -> None:
        again = self._is_backward()
        outer = self._frames[-1].call if self._frames else None
        call = self._find_repeated_call(index) if again else self._begin_call(index, outer, number)
        if call is not None:
            _direction(call, again).inside += 1
        if outer is not None:
            _direction(outer, again).outside += 1
        if not self._is_inside_a_call():
            self.span = Span(number, call, [], [])
        self._frames.append(_Frame(call))
        self._mark(number)

    def _begin_call(self, index: int, outer: Call | None, number: int) -> Call:
        layer = self._layers[index]
        self._stack.begin(layer)
        whole = self._stack.current == ""
        if outer is None and (whole or not self.runs or self.runs[-1].whole or self.runs[-1].has_backward):
            self.runs.append(TimedRun(self._numbers, whole, self._overhead))
            self._numbers += 1
        return self.runs[-1].add(self._stack.current, outer, number)

    def _find_repeated_call(self, index: int) -> Call | None:
        """Return the call that a checkpoint makes again; a layer that the pass did not call belongs to whatever runs.

        A node that was made to run layers runs those that were called after it was made, in their order. Any other
        asks for a tensor that was made before it, and the last call of the layer before it is the nearest.
        """
        running = self._frames[-1].call
        frame = next(frame for frame in reversed(self._frames) if frame.task is not None)
        if running is None or frame.node is None:
            return running
        paths = self._stack.paths[id(self._layers[index])]
        made = sorted((call for path in paths for call in running.run.of_path.get(path, ())), key=lambda c: c.order)
        later = [call for call in made if call.first > frame.node.number]
        if frame.node.runs_layers and later:
            frame.again[index] += 1
            return later[min(frame.again[index], len(later)) - 1]
        before = [call for call in made if call.first <= frame.node.number]
        return (before or made or [running])[-1]

    def _leave(self, raised: bool, number: int) -> None:
        while self._frames and self._frames[-1].task is not None:  # a backward pass that raised inside the call
            self._frames.pop()
        if not self._frames:
            return
        left = self._frames.pop()
        self._mark(number)
        if not self._is_backward():
            self._stack.end()
        if not self._is_inside_a_call() and self.span is not None:
            self._ranges.append((self.span.first, number))
        if raised and not self._frames and left.call is not None:
            left.call.run.failed = True

    def _mark(self, number: int) -> None:
        """Note the call that owns the nodes made from here on."""
        if self.span is not None:
            self.span.marks.append(number)
            self.span.owners.append(self._frames[-1].call if self._is_inside_a_call() else self.span.outermost)

    def _starts(self, subject: Node | Accumulation | None, task: int) -> None:
        frame = self._task(task)
        frame.node = subject if isinstance(subject, Node) else None
        frame.again.clear()
        call = (
            self._find_accumulating(subject, frame.call)
            if isinstance(subject, Accumulation)
            else subject and subject.call
        )
        if frame.ended and frame.call is not None and (call is None or call.outermost is not frame.call.outermost):
            self._drop_elapsed()
        frame.call, frame.ended = call, False
        if call is not None:
            call.run.has_backward = True
            call.backward.hooks += 1

    def _find_accumulating(self, subject: Accumulation, running: Call | None) -> Call | None:
        run = running.run if running is not None else self.runs[-1] if self.runs else None
        return run.last_call(subject.paths) if run is not None and run.calls else None

    def _ends(self, subject: Any, task: int) -> None:
        frame = self._task(task)
        frame.ended = True
        if frame.call is not None:
            frame.call.backward.hooks += 1

    def _task(self, task: int) -> _Frame:
        """Return the frame of a backward pass; those inside it that never ended have raised."""
        at = next((i for i, frame in enumerate(self._frames) if frame.task == task), None)
        if at is None:
            self._frames.append(_Frame(None, task))
            return self._frames[-1]
        del self._frames[at + 1 :]
        return self._frames[at]

    def _over(self, subject: Any, task: int) -> None:
        if any(frame.task == task for frame in self._frames):
            self._task(task)
            self._frames.pop()

    def _skip(self, subject: Any, number: int) -> None:
        self._drop_elapsed()

    def _forget(self, subject: Any, number: int) -> None:
        for frame in self._frames:
            if frame.task is not None and frame.call is not None:
                frame.call.run.has_backward = False
        self._frames = [frame for frame in self._frames if frame.task is None]
        self._drop_elapsed()

    def _drop_elapsed(self) -> None:
        """Take the time since the last event away from the layer that had it."""
        if self._moments:
            moment, _, backward = self._moments[-1]
            self._moments[-1] = (moment, None, backward)

    def _is_backward(self) -> bool:
        return any(frame.task is not None for frame in self._frames)

    def _is_inside_a_call(self) -> bool:
        return any(frame.task is None for frame in self._frames)


def _direction(call: Call, backward: bool) -> Elapsed:
    return call.backward if backward else call.forward


def inclusive(run: TimedRun) -> Iterator[tuple[Call, float, float]]:
    """Yield each call of a pass with its seconds forward and backward, those of the calls inside included."""
    forward = {id(call): call.forward.own_seconds for call in run.calls}
    backward = {id(call): call.backward.own_seconds for call in run.calls}
    for call in reversed(run.calls):
        if call.outer is not None:
            forward[id(call.outer)] += forward[id(call)]
            backward[id(call.outer)] += backward[id(call)]
    for call in run.calls:
        yield call, forward[id(call)], backward[id(call)]
