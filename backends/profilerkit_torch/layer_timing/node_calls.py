"""Which call of a layer a node of the gradient's graph is of."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from .timed_calls import Call

__all__ = ["Accumulation", "Change", "Node", "Span"]


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


class Change(NamedTuple):
    """From which number on the nodes of the graph are made in this call, which is the innermost then."""

    number: int
    call: Call | None


class Span(NamedTuple):
    """One outermost call, and in which of the calls inside it the nodes of the graph are made.

    Attributes:
        first: The number of the first node.
        outermost: The outermost call.
        changes: Each change of the innermost call, in the order of the nodes.
    """

    first: int
    outermost: Call | None
    changes: list[Change]

    def find_owner(self, number: int) -> Call | None:
        """Return the call in which a node was made; one made later, for what came out, is the outermost call's."""
        index = bisect_right(self.changes, number, key=_read_number) - 1
        return self.changes[index].call if index >= 0 else self.outermost


_read_number = attrgetter("number")
