"""The seconds of each call of a model's layers, forward and backward, from moments noted while the model runs.

A recorder notes an event when a layer's call begins or ends, and when a node of the gradient's graph begins. The time
between two events belongs to one call: in the forward pass to the innermost call, in the backward pass to the call in
which the running node was made. For example, a model calls its layer "a", and a backward pass follows::

    events     ENTER   ENTER   LEAVE   LEAVE     STARTS    STARTS    OVER
    of         model   "a"     "a"     model     a node    a node
                                                 of "a"    of model
    time of         model   "a"     model   nobody       "a"      model

So no time is counted twice, and the time of a layer is the time of its calls with all calls inside.

Autograd numbers its nodes in the order in which they are made. The numbers at which calls begin and end tell which call
made a node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from profilerkit.backend_kit.call_stack import CallStack

from .clocks import EventClock, HostClock
from .timed_calls import Call, Elapsed, Overhead, TimedRuns

__all__ = ["Accumulation", "Event", "Kind", "Node", "Span", "Timeline"]


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


class Node(NamedTuple):
    """A node that an operator made."""

    call: Call | None  #: the call of a layer in which it was made; None outside all calls
    number: int  #: its number in the sequence of nodes
    #: Whether it may run layers in the backward pass, like the function of a checkpoint, which enters autograd again.
    #: The calls of these layers began after it was made.
    runs_layers: bool = False


class Accumulation(NamedTuple):
    """A node that adds a gradient to a parameter."""

    paths: tuple[str, ...]  #: the paths of the layer that owns the parameter; empty if no layer does


class Span:
    """The nodes of one outermost call, with the calls inside it that made them."""

    def __init__(self, first: int, outermost: Call | None) -> None:
        self.first = first  #: the number of the first node
        self.outermost = outermost
        self._numbers: list[int] = []  #: of the first node after each change of the innermost call
        self._calls: list[Call | None] = []  #: the innermost call after each change

    def change(self, number: int, call: Call | None) -> None:
        """Note that the nodes from a number on are made in a call."""
        self._numbers.append(number)
        self._calls.append(call)

    def find_owner(self, number: int) -> Call | None:
        """Return the call that was the innermost one when a node was made; the outermost call before all changes."""
        index = bisect_right(self._numbers, number) - 1
        return self._calls[index] if index >= 0 else self.outermost


@dataclass(eq=False, slots=True)
class _Frame:
    """A call under way, or a backward pass."""

    call: Call | None  #: the call, or that of the node that runs; None if it is not known
    task: int | None = None  #: the number of the backward pass; None for a call
    node: Node | None = None  #: the node that runs; None for a node of no layer, and for an accumulation
    has_ended: bool = False  #: whether the last node has ended: the next time may belong to nodes of other calls
    repeats: dict[int, int] = field(default_factory=dict)  #: how often the node has run a layer again, by its index

    def find_repeated(self, layer: int, calls: Sequence[Call]) -> Call | None:
        """Return the call of a layer that the running node repeats, among all its calls; None if it was not called.

        A node that runs layers repeats the calls that began after the node was made, in their order. Any other node
        needs a tensor that was made before it: the nearest call is the last call of the layer before the node.
        """
        if self.node is None or not calls:
            return None
        number = self.node.number
        before = [call for call in calls if call.first_node <= number]
        later = calls[len(before) :]
        if self.node.runs_layers and later:
            self.repeats[layer] = self.repeats.get(layer, 0) + 1
            return later[: self.repeats[layer]][-1]
        return (before or calls)[-1]


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
        #: The nodes of the outermost call that runs, or ran last; None before the first call.
        self.span: Span | None = None
        #: Whether the gradients of a pass may have gradients, whose time is not known.
        self.has_second_gradients = False
        self._layers = [layer for _, layer in layers]
        self._stack = CallStack(layers)
        #: The outermost first. One has raised if a frame around it goes on, and it has not ended.
        self._frames: list[_Frame] = []
        self._clock = clock
        #: The moments before their conversion to seconds, each with what the time from there on is added to.
        self._moments: list[tuple[Any, Elapsed | None]] = []

    def advance(self, events: Sequence[Event]) -> None:
        """Take further events, and convert their moments to seconds if this needs no waiting."""
        for kind, subject, moment, number in events:
            self._follow(kind, subject, number)
            self._begin_time(moment)
        if not self._frames and self._moments and self._clock.has_passed(self._moments[-1][0]):
            self.settle()

    def skip(self, moment: Any) -> None:
        """Leave out the time from the last event to a moment: it was work of the timer."""
        self._drop_elapsed()
        self._begin_time(moment)

    def forget_backward(self, moment: Any) -> None:
        """End the backward passes under way at a moment: they have raised, and their passes have no backward times."""
        for frame in self._frames:
            if frame.task is not None and frame.call is not None:
                frame.call.run.has_backward = False
        self._frames = [frame for frame in self._frames if frame.task is None]
        self.skip(moment)

    def settle(self) -> None:
        """Convert the moments so far to seconds of their calls; the time of the last call may go on."""
        moments, self._moments = self._moments, []
        if not moments:
            return
        seconds = self._clock.seconds([moment for moment, _ in moments])
        for (_, elapsed), start, end in zip(moments, seconds, seconds[1:], strict=False):
            if elapsed is not None:
                elapsed.seconds += end - start
        if self._frames:
            self._moments.append(moments[-1])

    def _begin_time(self, moment: Any) -> None:
        """Give the time from a moment on to the call that runs."""
        call = self._innermost_call
        self._moments.append((moment, None if call is None else call.get_elapsed(self._backward is not None)))

    def _drop_elapsed(self) -> None:
        """Take the time since the last moment away from its call."""
        if self._moments:
            self._moments[-1] = self._moments[-1][0], None

    @property
    def _innermost_call(self) -> Call | None:
        """The innermost call, or the call whose node runs; None if it is not known."""
        return self._frames[-1].call if self._frames else None

    @property
    def _backward(self) -> _Frame | None:
        """The innermost backward pass; None if none is under way."""
        return next((frame for frame in reversed(self._frames) if frame.task is not None), None)

    @property
    def _is_inside_call(self) -> bool:
        """Whether a layer runs, forward or again in a backward pass."""
        return any(frame.task is None for frame in self._frames)

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
                self.has_second_gradients |= not self._is_inside_call

    # Calls of layers -----------------------------------------------------------------------------------------------

    def _enter(self, index: int, number: int) -> None:
        """Begin a call; in a backward pass it is a call of the forward pass that a checkpoint repeats."""
        backward, outer = self._backward, self._innermost_call
        if backward is None:
            self._stack.begin(self._layers[index])
            call: Call | None = self.runs.begin_call(self._stack.current, outer, number)
        else:
            call = self._find_repeated(index, backward)
        if call is not None:
            call.get_elapsed(backward is not None).calls += 1
        if outer is not None:
            outer.get_elapsed(backward is not None).inner_calls += 1
        if not self._is_inside_call:
            self.span = Span(number, call)
        self._frames.append(_Frame(call))
        self._note_owner(number)

    def _find_repeated(self, index: int, backward: _Frame) -> Call | None:
        """Return the call that is repeated; a layer that its pass did not call belongs to the running call."""
        running = self._innermost_call
        if running is None:
            return None
        calls = running.run.list_calls(self._stack.paths[id(self._layers[index])])
        return backward.find_repeated(index, calls) or running

    def _leave(self, raised: bool, number: int) -> None:
        """End the innermost call, with the backward passes inside it that raised; nothing if it began before the timer.

        When the outermost call has ended, the nodes that are made of its outputs are still nodes of it.
        """
        while self._frames and self._frames[-1].task is not None:
            self._frames.pop()
        if not self._frames:
            return
        call = self._frames.pop().call
        self._note_owner(number)
        is_forward = self._backward is None
        if is_forward:
            self._stack.end()
        if call is None or self._is_inside_call:
            return
        if self.span is not None:
            call.run.node_numbers.append(range(self.span.first, number))
        call.run.failed |= raised and is_forward

    def _note_owner(self, number: int) -> None:
        """Note the call that owns the nodes from a number on: the innermost one, or the outermost one that ended."""
        if self.span is not None:
            self.span.change(number, self._innermost_call if self._is_inside_call else self.span.outermost)

    # Backward passes -----------------------------------------------------------------------------------------------

    def _start_node(self, subject: Node | Accumulation | None, task: int) -> None:
        """Begin a node, whose time belongs to its call."""
        frame = self._go_on_backward(task)
        call = self._find_call(subject, frame.call)
        if frame.has_ended and not _is_beside(call, frame.call):
            self._drop_elapsed()  # unseen nodes may have taken that time
        frame.node = subject if isinstance(subject, Node) else None
        frame.call, frame.has_ended = call, False
        frame.repeats.clear()
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
        frame = self._go_on_backward(task)
        frame.has_ended = True
        if frame.call is not None:
            frame.call.backward.hooks += 1

    def _end_backward(self, task: int) -> None:
        frame = self._find_backward(task)
        if frame is not None:
            self._frames.pop()
            if frame.has_ended:
                self._drop_elapsed()  # unseen nodes may have taken that time, as of a model that was called before

    def _go_on_backward(self, task: int) -> _Frame:
        """Return the frame of a backward pass, which begins if it is not under way."""
        frame = self._find_backward(task)
        if frame is None:
            frame = _Frame(None, task)
            self._frames.append(frame)
        return frame

    def _find_backward(self, task: int) -> _Frame | None:
        """Return the frame of a backward pass, as the innermost frame; None if it is not under way."""
        for index, frame in enumerate(self._frames):
            if frame.task == task:
                del self._frames[index + 1 :]
                return frame
        return None


def _is_beside(call: Call | None, last: Call | None) -> bool:
    """Return whether a call is inside the same outermost call as the last one; True if no call was last."""
    return last is None or (call is not None and call.outermost is last.outermost)
