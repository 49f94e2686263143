"""The nodes of autograd's graph that each call of a layer made.

Autograd numbers its nodes in the order in which they are made. The numbers at which calls begin and end tell which call
made a node.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from .timed_calls import Call

__all__ = ["Accumulation", "Change", "Node", "Span"]

_read_number = attrgetter("number")


class Node(NamedTuple):
    """A node that an operator made.

    Attributes:
        call: The call of a layer in which it was made; None outside all calls.
        number: Its number in the sequence of nodes.
        runs_layers: Whether it may run layers in the backward pass, like the function of a checkpoint, which enters
            autograd again. The calls of these layers began after it was made.
    """

    call: Call | None
    number: int
    runs_layers: bool = False


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A node that adds a gradient to a parameter.

    Attributes:
        paths: The paths of the layer that owns the parameter; empty if no layer does.
    """

    paths: tuple[str, ...]


class Change(NamedTuple):
    """A moment at which another call becomes the innermost one.

    Attributes:
        number: The number of the first node that is made after it.
        call: The innermost call from then on.
    """

    number: int
    call: Call | None


@dataclass(frozen=True, slots=True)
class Span:
    """The nodes of one outermost call, with the calls inside it that made them.

    Attributes:
        first: The number of the first node.
        outermost: The outermost call.
        changes: Each change of the innermost call, in the order of the nodes. When the outermost call ends it becomes
            the innermost call again, for the nodes that are made of its outputs.
    """

    first: int
    outermost: Call | None
    changes: list[Change] = field(default_factory=list)

    def find_owner(self, number: int) -> Call | None:
        """Return the call that was the innermost one when a node was made; the outermost call before all changes."""
        index = bisect_right(self.changes, number, key=_read_number) - 1
        return self.changes[index].call if index >= 0 else self.outermost
