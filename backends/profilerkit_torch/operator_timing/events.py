"""From the events of torch's profiler to the seconds of each operator in each layer.

What the profiler gives, found out with torch 2.13: an event for each operator with those it called inside it in time,
on the thread that ran it; an event for each node of the gradient's graph, around which lies the engine's own; and the
ranges that the user or we have opened. A node has the number that the graph's sequence had when the operator began
that made it: its layer is where that one ran. A node that adds to a parameter's gradient has no number and runs right
after the one that gave it the gradient, whose layer it gets. Nothing here needs torch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from profilerkit.times.operator_times import CalledOperator, KernelTime, OperatorTime, OperatorTimes

__all__ = ["Event", "EventKind", "OperatorLedger"]


class EventKind(Enum):
    """What an event is."""

    PASS = "a pass, as we marked it"
    LAYER = "a call of a layer, whose path is the name"
    RANGE = "a range of the user's"
    NODE = "a node of the gradient's graph, or the engine's work around one"
    OPERATOR = "an operator"


class Event(NamedTuple):
    """One event: where it began and ended in seconds, and the kernels that it started itself on a device."""

    kind: EventKind
    name: str
    thread: int
    start: float
    end: float
    number: int = -1
    forward_thread: int = 0
    kernels: tuple[tuple[str, float], ...] = ()


@dataclass(eq=False)
class _Row:
    """One operator in one layer over the passes: seconds by the number of the pass."""

    seconds: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    kernels: defaultdict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    #: Of the last pass alone, with the order in which they began.
    kernel_calls: Counter[str] = field(default_factory=Counter)
    called: list[tuple[int, CalledOperator]] = field(default_factory=list)


@dataclass(eq=False)
class _Open:
    """An event under way, and where what happens inside it belongs."""

    event: Event
    order: int
    layer: str | None
    is_backward: bool
    row: _Row | None = None
    #: The operator around it of the same row; None for an outermost one.
    outer: _Open | None = None
    inside: float = 0.0
    called: list[CalledOperator] = field(default_factory=list)


class OperatorLedger:
    """Adds the events of one pass after another up to the seconds of each operator; no event is kept.

    Args:
        phase: Whose operators are wanted: "forward" or "backward".
        on_device: Whether an operator's seconds are those of its kernels on a device, not those of the host.
        is_free: Says of an operator by its name whether it does no arithmetic.
    """

    def __init__(
        self, phase: str, on_device: bool = False, is_free: Callable[[str], bool] = lambda name: False
    ) -> None:
        self.phase: str = phase
        self._on_device, self._is_free = on_device, is_free
        self._rows: dict[tuple[str, str], _Row] = {}
        self._whole: list[float] = []
        self._layers: Counter[str] = Counter()

    def add(self, events: Sequence[Event]) -> None:
        """Take the events of passes, each marked by an event around it; what lies outside of them is left out."""
        for window in sorted(
            (event for event in events if event.kind is EventKind.PASS), key=lambda event: event.start
        ):
            inside = [event for event in events if window.start <= event.start < window.end and event is not window]
            self._add_pass(window, sorted(inside, key=lambda event: (event.start, -event.end)))

    def times(self) -> OperatorTimes:
        """Return what was added up so far."""
        passes = range(len(self._whole))
        rows = tuple(
            OperatorTime(
                operator=operator,
                layer=layer,
                phase=self.phase,
                calls=len(row.called),
                seconds=tuple(row.seconds.get(index, 0.0) for index in passes),
                kernels=tuple(
                    KernelTime(
                        name, row.kernel_calls[name], tuple(row.kernels.get((name, index), 0.0) for index in passes)
                    )
                    for name in dict.fromkeys(name for name, _ in row.kernels)
                ),
                called=tuple(sorted(row.called, key=lambda rows: rows[0])),
            )
            for (operator, layer), row in self._rows.items()
        )
        return OperatorTimes(rows, {self.phase: tuple(self._whole)}, {self.phase: frozenset(self._layers)})

    @property
    def calls(self) -> Mapping[str, int]:
        """How often the last pass called each layer that it called, by its path."""
        return dict(self._layers)

    def _add_pass(self, window: Event, events: Sequence[Event]) -> None:
        index = len(self._whole)
        for row in self._rows.values():
            row.kernel_calls.clear()
            row.called.clear()
        self._layers.clear()
        for opened in _Walk(window.thread, self._row).close(events):
            self._charge(opened, index)
            if opened.event.kind is EventKind.LAYER:
                self._layers[opened.event.name] += 1
        if self.phase == "backward":  # from the first node to the last: the rest of the pass is the way forward
            nodes = [event for event in events if event.kind is EventKind.NODE] or [window._replace(end=window.start)]
            self._whole.append(max(node.end for node in nodes) - min(node.start for node in nodes))
        else:
            self._whole.append(window.end - window.start)

    def _row(self, name: str, layer: str | None, is_backward: bool) -> _Row | None:
        is_counted = layer is not None and is_backward == (self.phase == "backward")
        return self._rows.setdefault((name, layer or ""), _Row()) if is_counted else None

    def _charge(self, opened: _Open, index: int) -> None:
        """Give what an event took itself to its row, and its name to the operator around it."""
        event, row = opened.event, opened.row
        if row is None or event.kind not in (EventKind.NODE, EventKind.OPERATOR):
            return
        charged = event.kernels if self._on_device else ((event.name, event.end - event.start - opened.inside),)
        for name, seconds in charged:
            row.seconds[index] += seconds
            row.kernels[name, index] += seconds
            row.kernel_calls[name] += not (event.kind is EventKind.NODE and opened.outer)  # the engine has counted it
        is_free = event.kind is EventKind.NODE or self._is_free(event.name)
        if opened.outer is None:
            row.called.append((opened.order, CalledOperator(event.name, tuple(opened.called), is_free)))
        elif "::" in event.name:
            opened.outer.called.append(CalledOperator(event.name, tuple(opened.called), is_free))
        else:  # a call of the device's driver, or the node inside the engine's work around it
            opened.outer.called += opened.called


class _Walk:
    """Goes through the events of a pass in the order of time, knowing what is under way in each thread."""

    def __init__(self, thread: int, row: Callable[[str, str | None, bool], _Row | None]) -> None:
        self._main, self._row = thread, row
        self._stacks: defaultdict[int, list[_Open]] = defaultdict(list)
        #: By thread, where the graph's sequence stood when an operator began, and the layer that it began in.
        self._numbers: defaultdict[int, list[int]] = defaultdict(list)
        self._makers: defaultdict[int, list[str]] = defaultdict(list)
        self._last_node: dict[int, str] = {}

    def close(self, events: Sequence[Event]) -> Iterator[_Open]:
        """Yield the events as they end, inner ones before those around them."""
        for order, event in enumerate(events):
            stack = self._stacks[event.thread]
            while stack and stack[-1].event.end <= event.start:
                yield self._close(stack)
            stack.append(self._open(event, order, stack[-1] if stack else None))
        for stack in self._stacks.values():
            while stack:
                yield self._close(stack)

    def _close(self, stack: list[_Open]) -> _Open:
        done = stack.pop()
        if stack:
            stack[-1].inside += done.event.end - done.event.start
        return done

    def _open(self, event: Event, order: int, enclosing: _Open | None) -> _Open:
        # In another thread only what the model runs is followed.
        layer = enclosing.layer if enclosing else None if event.thread == self._main else ""
        is_backward = enclosing is not None and enclosing.is_backward
        if event.kind is EventKind.LAYER:
            return _Open(event, order, event.name, is_backward)
        if event.kind is EventKind.NODE:
            return self._node(event, order, enclosing)
        outer = (
            enclosing
            if enclosing is not None and enclosing.event.kind is not EventKind.NODE and enclosing.row
            else None
        )
        if event.kind is EventKind.RANGE:
            return _Open(event, order, layer, is_backward, enclosing.row if outer and enclosing else None, outer)
        if event.number >= 0:
            self._note_maker(event, layer)
        row = outer.row if outer is not None else self._row(event.name, layer, is_backward)
        return _Open(event, order, layer, is_backward, row, _nearest_operator(outer))

    def _node(self, event: Event, order: int, enclosing: _Open | None) -> _Open:
        if enclosing is not None and enclosing.event.kind is EventKind.NODE and enclosing.event.name == event.name:
            return _Open(
                event, order, enclosing.layer, True, enclosing.row, enclosing
            )  # inside the engine's work around it
        layer = self._find_layer(event)
        self._last_node[event.thread] = layer
        return _Open(event, order, layer, True, self._row(event.name, layer, True))

    def _note_maker(self, event: Event, layer: str | None) -> None:
        numbers, makers = self._numbers[event.thread], self._makers[event.thread]
        if numbers and numbers[-1] >= event.number:
            makers[-1] = layer or ""
        else:
            numbers.append(event.number)
            makers.append(layer or "")

    def _find_layer(self, node: Event) -> str:
        if node.number < 0:
            return self._last_node.get(node.thread, "")
        at = bisect_right(self._numbers[node.forward_thread], node.number) - 1
        return self._makers[node.forward_thread][at] if at >= 0 else ""


def _nearest_operator(opened: _Open | None) -> _Open | None:
    while opened is not None and opened.event.kind is EventKind.RANGE:
        opened = opened.outer
    return opened
