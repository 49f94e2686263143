"""The seconds of each call of a model's layers, forward and backward, from moments noted while the model runs.

A recorder notes an event when a layer's call begins or ends, and when a node of the gradient's graph begins. The time
between two events belongs to one call: in the forward pass to the innermost call, in the backward pass to the call in
which the running node was made. For example, a model calls its layer "a", and a backward pass follows::

    events     ENTER   ENTER   LEAVE   LEAVE     STARTS    STARTS    OVER
    of         model   "a"     "a"     model     a node    a node
                                                 of "a"    of model
    time of         model   "a"     model   nobody       "a"      model

So no time is counted twice, and the time of a layer is the time of its calls with all calls inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from profilerkit.backend_kit.call_stack import CallStack

from .calls_under_way import Accumulation, BackwardFrame, Frames, Node, Span
from .clocks import EventClock, HostClock
from .timed_calls import Call, Overhead, TimedRuns

__all__ = ["Event", "Kind", "Timeline"]


class Kind(IntEnum):
    """The kind of an event, which determines its subject."""

    ENTER = 0  #: a call of a layer begins; the subject is the layer's index
    LEAVE = 1  #: the innermost call ends; the subject is True for an outermost one that raised
    STARTS = 2  #: a node begins; the subject is a `Node`, an `Accumulation`, or None for a node of no layer
    ENDS = 3  #: a node ends; unseen nodes of other calls may follow
    OVER = 4  #: a backward pass is over
    GRAPH = 5  #: a backward pass begins that makes a graph of its own, whose nodes nobody sees


#: Kind, subject, moment and number: the number of the next node of the graph for calls, of the backward pass for nodes.
#: A plain tuple, because one is made at the begin and end of each call while the clock runs.
Event: TypeAlias = tuple[Kind, Any, Any, int]


class Timeline:
    """Follows the events, in their order.

    Args:
        layers: Every layer under every path it has, the root first; an event names a layer by its index here.
        overhead: The seconds that measuring adds; None if it adds nothing to the clock's time.
        clock: The clock that has read the moments.
        keep: The number of passes that are kept: the last ones.
    """

    def __init__(
        self,
        layers: Sequence[tuple[str, Any]],
        overhead: Overhead | None,
        clock: HostClock | EventClock,
        keep: int = 100,
    ) -> None:
        self.runs: TimedRuns = TimedRuns(keep, overhead or Overhead())
        #: Whether the gradients of a pass may have gradients, whose time is not known.
        self.has_second_gradients = False
        self._layers = [layer for _, layer in layers]
        self._stack = CallStack(layers)
        self._frames = Frames()
        self._moments = _Moments(clock)

    @property
    def span(self) -> Span | None:
        """The nodes of the outermost call that runs, or ran last; None before the first call."""
        return self._frames.span

    def advance(self, events: Sequence[Event]) -> None:
        """Take further events, and convert their moments to seconds if this needs no waiting."""
        for kind, subject, moment, number in events:
            self._follow(kind, subject, number)
            self._begin_time(moment)
        if not self._frames and self._moments.are_ready:
            self.settle()

    def skip(self, moment: Any) -> None:
        """Leave out the time from the last event to a moment: it was work of the timer."""
        self._moments.drop_elapsed()
        self._begin_time(moment)

    def forget_backward(self, moment: Any) -> None:
        """End the backward passes under way at a moment: they have raised, and their passes have no backward times."""
        for frame in self._frames.drop_backward():
            if frame.call is not None:
                frame.call.run.has_backward = False
        self.skip(moment)

    def settle(self) -> None:
        """Convert the moments so far to seconds and give these to their calls."""
        self._moments.settle(goes_on=bool(self._frames))

    def _begin_time(self, moment: Any) -> None:
        """Give the time from a moment on to the call that runs."""
        self._moments.add(moment, self._frames.call, self._frames.backward is not None)

    def _follow(self, kind: Kind, subject: Any, number: int) -> None:
        match kind:
            case Kind.ENTER:
                self._enter(subject, number)
            case Kind.LEAVE:
                self._leave(subject, number)
            case Kind.STARTS:
                self._start_node(subject, number)
            case Kind.ENDS:
                self._end_node(number)
            case Kind.OVER:
                self._end_backward(number)
            case Kind.GRAPH:  # inside of a layer, its nodes are nodes of this layer
                self.has_second_gradients |= not self._frames.is_inside_call

    # Calls of layers -----------------------------------------------------------------------------------------------

    def _enter(self, index: int, number: int) -> None:
        """Begin a call; in a backward pass it is a call of the forward pass that a checkpoint repeats."""
        backward, outer = self._frames.backward, self._frames.call
        if backward is None:
            self._stack.begin(self._layers[index])
            call: Call | None = self.runs.begin_call(self._stack.current, outer, number)
        else:
            call = self._find_repeated(index, backward)
        if call is not None:
            call.get_elapsed(backward is not None).calls += 1
        if outer is not None:
            outer.get_elapsed(backward is not None).inner_calls += 1
        self._frames.begin_call(call, number)

    def _find_repeated(self, index: int, backward: BackwardFrame) -> Call | None:
        """Return the call that is repeated; a layer that its pass did not call belongs to the running call."""
        running = self._frames.call
        if running is None:
            return None
        calls = running.run.list_calls(self._stack.paths[id(self._layers[index])])
        return backward.find_repeated(index, calls) or running

    def _leave(self, raised: bool, number: int) -> None:
        """End the innermost call."""
        left = self._frames.end_call(number)
        if left is None:
            return
        if self._frames.backward is None:
            self._stack.end()
        if left.call is None or self._frames.is_inside_call:
            return
        if self.span is not None:
            left.call.run.node_numbers.append(range(self.span.first, number))
        if raised and self._frames.backward is None:
            left.call.run.failed = True

    # Backward passes -----------------------------------------------------------------------------------------------

    def _start_node(self, subject: Node | Accumulation | None, task: int) -> None:
        """Begin a node, whose time belongs to its call."""
        frame = self._frames.go_on_backward(task)
        call = self._find_call(subject, frame.call)
        if frame.ended and not _is_beside(call, frame.call):
            self._moments.drop_elapsed()  # unseen nodes may have taken that time
        frame.begin_node(subject if isinstance(subject, Node) else None, call)
        if call is not None:
            call.run.has_backward = True
            call.backward.hooks += 1

    def _find_call(self, subject: Node | Accumulation | None, running: Call | None) -> Call | None:
        """Return the call of a node that begins after a node of the running call; None if no call is known."""
        if not isinstance(subject, Accumulation):
            return None if subject is None else subject.call
        run = running.run if running is not None else next(reversed(self.runs.kept), None)
        return None if run is None else run.find_last_call(subject.paths)

    def _end_node(self, task: int) -> None:
        frame = self._frames.go_on_backward(task)
        frame.ended = True
        if frame.call is not None:
            frame.call.backward.hooks += 1

    def _end_backward(self, task: int) -> None:
        frame = self._frames.end_backward(task)
        if frame is not None and frame.ended:
            self._moments.drop_elapsed()  # unseen nodes may have taken that time, as of a model that was called before


def _is_beside(call: Call | None, last: Call | None) -> bool:
    """Return whether a call is inside the same outermost call as the last one; True if no call was last."""
    return last is None or (call is not None and call.outermost is last.outermost)


class _Moment(NamedTuple):
    """A moment before its conversion to seconds, and the call whose time begins there."""

    moment: Any
    call: Call | None
    is_backward: bool


class _Moments:
    """The moments of a clock: the time between two moments belongs to the call that runs after the first."""

    def __init__(self, clock: HostClock | EventClock) -> None:
        self._clock = clock
        self._moments: list[_Moment] = []

    def add(self, moment: Any, call: Call | None, is_backward: bool) -> None:
        """Note a moment at which the time of a call begins; None if no layer runs."""
        self._moments.append(_Moment(moment, call, is_backward))

    def drop_elapsed(self) -> None:
        """Take the time since the last moment away from its call."""
        if self._moments:
            self._moments[-1] = self._moments[-1]._replace(call=None)

    @property
    def are_ready(self) -> bool:
        """Whether the moments can become seconds without waiting for a device."""
        return bool(self._moments) and self._clock.has_passed(self._moments[-1].moment)

    def settle(self, goes_on: bool) -> None:
        """Convert the moments so far to seconds of their calls; the time of the last call may go on."""
        moments, self._moments = self._moments, []
        if not moments:
            return
        seconds = self._clock.seconds([moment.moment for moment in moments])
        for moment, start, end in zip(moments, seconds, seconds[1:], strict=False):
            if moment.call is not None:
                moment.call.get_elapsed(moment.is_backward).seconds += end - start
        if goes_on:
            self._moments.append(moments[-1])
