"""From the events of torch's profiler to the seconds of each operator in each layer.

What the profiler gives, found out with torch 2.13: an event for each operator with those it called inside it in time,
on the thread that ran it; an event for each node of the gradient's graph, around which lies the engine's own; and the
ranges that the user or we have opened. A node's number is that of the last operator which began under it: its layer is
where that one ran. A node that adds to a parameter's gradient has no number and runs right after the one that gave it
the gradient, whose layer it gets. Nothing here needs torch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from profilerkit.operator_times import CalledOperator, KernelTime, OperatorTime, OperatorTimes

__all__ = ["Event", "OperatorLedger", "Sort"]


class Sort(Enum):
    """What an event is."""

    PASS = "a pass, as we marked it"
    LAYER = "a call of a layer, whose path is the name"
    RANGE = "a range of the user's"
    NODE = "a node of the gradient's graph, or the engine's work around one"
    OPERATOR = "an operator"


class Event(NamedTuple):
    """One event: where it began and ended in seconds, and the kernels that it started itself on a device."""

    sort: Sort
    name: str
    thread: int
    start: float
    end: float
    number: int = -1
    forward_thread: int = 0
    kernels: tuple[tuple[str, float], ...] = ()


@dataclass(eq=False)
class _Open:
    """An event under way, and what the events inside it belong to: a layer and a row, where there are any."""

    event: Event
    phase: str
    layer: str | None
    row: _Row | None
    inside: float = 0.0
    called: list[CalledOperator] = field(default_factory=list)
    node: str = ""


@dataclass(eq=False)
class _Row:
    """One operator in one layer over the passes: seconds by the place of the pass."""

    seconds: Counter[int] = field(default_factory=Counter)
    kernels: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    #: Of the last pass alone.
    kernel_calls: Counter[str] = field(default_factory=Counter)
    called: list[tuple[int, CalledOperator]] = field(default_factory=list)


class OperatorLedger:
    """Adds the events of one pass after another up to the seconds of each operator; no event is kept.

    Args:
        phase: Whose operators are wanted: "forward" or "backward".
        on_device: Whether an operator's seconds are those of its kernels on a device, not those of the host.
        is_free: Says of an operator by its name whether it does no arithmetic.
    """

    def __init__(self, phase: str, on_device: bool = False, is_free: Callable[[str], bool] = lambda name: False) -> None:
        self.phase, self._on_device, self._is_free = phase, on_device, is_free
        self._rows: dict[tuple[str, str], _Row] = {}
        self._whole: list[float] = []
        self._layers: set[str] = set()
        self._order = 0

    def add(self, events: Sequence[Event]) -> None:
        """Take the events of passes, each marked by an event around it; what lies outside of them is left out."""
        for window in sorted((event for event in events if event.sort is Sort.PASS), key=lambda event: event.start):
            self._add_pass(window, [event for event in events if _is_in(event, window)])

    def _add_pass(self, window: Event, events: Sequence[Event]) -> None:
        index = len(self._whole)
        for row in self._rows.values():
            row.kernel_calls.clear()
            row.called.clear()
        self._layers.clear()
        self._order = 0
        makers = _layers_of_nodes(events)
        by_thread: dict[int, list[Event]] = defaultdict(list)
        for event in events:
            by_thread[event.thread].append(event)
        nodes: list[Event] = []
        for thread, own in by_thread.items():
            outside = None if thread == window.thread else ""  # of another thread only the model's work is seen
            for opened in _Walk(own, makers, outside, self._row).closed():
                self._charge(opened, index)
                if opened.event.sort is Sort.NODE:
                    nodes.append(opened.event)
                elif opened.event.sort is Sort.LAYER and opened.phase == self.phase:
                    self._layers.add(opened.event.name)
        if self.phase == "forward":
            self._whole.append(window.end - window.start)
        else:  # from the first node to the last: the rest of the pass is the way forward
            self._whole.append(max(e.end for e in nodes) - min(e.start for e in nodes) if nodes else 0.0)

    def _row(self, name: str, layer: str, phase: str) -> _Row | None:
        return self._rows.setdefault((name, layer), _Row()) if phase == self.phase else None

    def _charge(self, opened: _Open, index: int) -> None:
        """Give an event's own time to its row."""
        event, row = opened.event, opened.row
        if row is None or event.sort not in (Sort.NODE, Sort.OPERATOR):
            return
        if self._on_device:
            own = [*event.kernels]
        else:
            own = [(opened.node or event.name, max(0.0, event.end - event.start - opened.inside))]
        for name, seconds in own:
            row.seconds[index] += seconds
            row.kernels[name][index] += seconds
            row.kernel_calls[name] += 1
        if opened.called:
            row.called += [(self._placed(), called) for called in opened.called]

    def _placed(self) -> int:
        self._order += 1
        return self._order
