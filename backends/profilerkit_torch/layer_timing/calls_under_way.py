"""The calls of layers and the backward passes under way, and the nodes of autograd's graph that each call made.

Autograd numbers its nodes in the order in which they are made. The numbers at which calls begin and end tell which call
made a node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from .timed_calls import Call

__all__ = ["Accumulation", "BackwardFrame", "Change", "Frame", "Frames", "Node", "Span"]


_read_number = attrgetter("number")


class Node(NamedTuple):
    """A node that an operator made."""

    call: Call | None  #: the call of a layer in which it was made; None outside all calls
    number: int  #: its number in the sequence of nodes
    #: Whether it may run layers in the backward pass, like the function of a checkpoint, which enters autograd again.
    #: The calls of these layers began after it was made.
    runs_layers: bool = False


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A node that adds a gradient to a parameter."""

    paths: tuple[str, ...]  #: the paths of the layer that owns the parameter; empty if no layer does


class Change(NamedTuple):
    """A moment at which another call becomes the innermost one."""

    number: int  #: the number of the first node that is made after it
    call: Call | None  #: the innermost call from then on


@dataclass(frozen=True, slots=True)
class Span:
    """The nodes of one outermost call, with the calls inside it that made them."""

    first: int  #: the number of the first node
    outermost: Call | None
    #: Each change of the innermost call, in the order of the nodes. When the outermost call ends it becomes the
    #: innermost call again, for the nodes that are made of its outputs.
    changes: list[Change] = field(default_factory=list)

    def find_owner(self, number: int) -> Call | None:
        """Return the call that was the innermost one when a node was made; the outermost call before all changes."""
        index = bisect_right(self.changes, number, key=_read_number) - 1
        return self.changes[index].call if index >= 0 else self.outermost


# Calls and passes that are under way ---------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Frame:
    """A call under way; None for a layer that is run again while no known call runs."""

    call: Call | None


@dataclass(eq=False, slots=True)
class BackwardFrame(Frame):
    """A backward pass under way, with the call whose node runs."""

    task: int  #: the number of the backward pass
    #: Whether the last node has ended: then the next time may belong to nodes of another outermost call.
    ended: bool = False
    #: The node that runs; None for a node of no layer, and for a node that adds to the gradient of a parameter.
    node: Node | None = None
    #: By the index of a layer, how often this node has run it again.
    repeats: Counter[int] = field(default_factory=Counter)

    def begin_node(self, node: Node | None, call: Call | None) -> None:
        """Note the node that runs now, and the call that it belongs to."""
        self.node, self.call, self.ended = node, call, False
        self.repeats.clear()

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
            self.repeats[layer] += 1
            return later[: self.repeats[layer]][-1]
        return (before or calls)[-1]


class Frames:
    """All frames under way. A frame has raised if a frame around it goes on, and it has not ended."""

    def __init__(self) -> None:
        #: The nodes of the outermost call that runs, or ran last; None before the first call.
        self.span: Span | None = None
        self._frames: list[Frame] = []  #: the outermost first

    def __bool__(self) -> bool:
        return bool(self._frames)

    @property
    def call(self) -> Call | None:
        """The innermost call, or the call whose node runs; None if it is not known."""
        return self._frames[-1].call if self._frames else None

    @property
    def backward(self) -> BackwardFrame | None:
        """The innermost backward pass; None if none is under way."""
        return next((frame for frame in reversed(self._frames) if isinstance(frame, BackwardFrame)), None)

    @property
    def is_inside_call(self) -> bool:
        """Whether a layer runs, forward or again in a backward pass."""
        return not all(isinstance(frame, BackwardFrame) for frame in self._frames)

    def begin_call(self, call: Call | None, number: int) -> None:
        """Add the frame of a call, which owns the nodes from this number on."""
        if not self.is_inside_call:
            self.span = Span(number, call)
        self._frames.append(Frame(call))
        self._note_owner(number)

    def end_call(self, number: int) -> Frame | None:
        """Take off the frame of the innermost call, before the node of this number is made; return the frame.

        None if no call is known to run: it began before the timer.
        """
        while self._frames and isinstance(self._frames[-1], BackwardFrame):
            self._frames.pop()
        if not self._frames:
            return None
        left = self._frames.pop()
        self._note_owner(number)
        return left

    def _note_owner(self, number: int) -> None:
        """Note the call that owns the nodes from a number on: the innermost one, or the outermost one that ended."""
        if self.span is not None:
            owner = self.call if self.is_inside_call else self.span.outermost
            self.span.changes.append(Change(number, owner))

    def _find_backward(self, task: int) -> BackwardFrame | None:
        """Return the frame of a backward pass, as the innermost frame; None if it is not under way."""
        for index, frame in enumerate(self._frames):
            if isinstance(frame, BackwardFrame) and frame.task == task:
                del self._frames[index + 1 :]
                return frame
        return None

    def go_on_backward(self, task: int) -> BackwardFrame:
        """Return the frame of a backward pass, which begins if it is not under way."""
        frame = self._find_backward(task)
        if frame is None:
            frame = BackwardFrame(None, task)
            self._frames.append(frame)
        return frame

    def end_backward(self, task: int) -> BackwardFrame | None:
        """Take off the frame of a backward pass, and return it; None if it is not under way."""
        frame = self._find_backward(task)
        if frame is not None:
            self._frames.pop()
        return frame

    def drop_backward(self) -> list[BackwardFrame]:
        """Take off the frames of all backward passes, and return them."""
        dropped = [frame for frame in self._frames if isinstance(frame, BackwardFrame)]
        self._frames = [frame for frame in self._frames if not isinstance(frame, BackwardFrame)]
        return dropped
