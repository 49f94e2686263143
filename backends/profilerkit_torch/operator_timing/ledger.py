"""From the events of torch's profiler to the seconds of each operator in each layer. Nothing here needs torch."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from profilerkit.times.operator_times import CalledOperator, OperatorTimes, OrderedCall

from .events import Event, EventKind, Kernel, Row

__all__ = ["NodeMakers", "OperatorLedger"]


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
        self._on_device = on_device
        self._is_free = is_free
        #: By the name of the operator and the layer.
        self._rows: dict[tuple[str, str], Row] = {}
        self._whole: list[float] = []
        self._layers: Counter[str] = Counter()

    def add(self, events: Sequence[Event]) -> None:
        """Take the events of passes, each marked by an event around it; what lies outside of them is left out."""
        passes = [event for event in events if event.kind is EventKind.PASS]
        for window in sorted(passes, key=lambda event: event.start):
            inside = [event for event in events if window.start <= event.start < window.end and event is not window]
            self._add_pass(window, sorted(inside, key=lambda event: (event.start, -event.end)))

    def times(self) -> OperatorTimes:
        """Return what was added up so far."""
        passes = len(self._whole)
        rows = tuple(row.sum_up(operator, layer, self.phase, passes) for (operator, layer), row in self._rows.items())
        return OperatorTimes(rows, {self.phase: tuple(self._whole)}, {self.phase: frozenset(self._layers)})

    @property
    def calls(self) -> Mapping[str, int]:
        """How often the last pass called each layer that it called, by its path."""
        return dict(self._layers)

    def _add_pass(self, window: Event, events: Sequence[Event]) -> None:
        for row in self._rows.values():
            row.forget_calls()
        self._layers.clear()
        number = len(self._whole)
        for closed in EventWalk(window.thread, self._find_row).close(events):
            self._charge(closed, number)
            if closed.event.kind is EventKind.LAYER:
                self._layers[closed.event.name] += 1
        self._whole.append(_measure_backward(events) if self.phase == "backward" else window.end - window.start)

    def _find_row(self, name: str, layer: str | None, is_backward: bool) -> Row | None:
        """Return the row of an operator; None outside of the model, and for an operator of the other phase."""
        if layer is None or is_backward != (self.phase == "backward"):
            return None
        return self._rows.setdefault((name, layer), Row())

    def _charge(self, closed: OpenEvent, number: int) -> None:
        """Give what an event took itself to its row, and its name to the operator around it."""
        event, row, outer = closed.event, closed.row, closed.outer
        if row is None or event.kind not in (EventKind.NODE, EventKind.OPERATOR):
            return
        is_node = event.kind is EventKind.NODE
        if self._on_device:
            for kernel in event.kernels:
                row.charge(number, kernel, is_call=True)
        else:  # a node lies in the engine's work around it: both are one call
            own_seconds = event.end - event.start - closed.inside
            row.charge(number, Kernel(event.name, own_seconds), is_call=not is_node or outer is None)
        operator = CalledOperator(event.name, tuple(closed.called), is_node or self._is_free(event.name))
        if outer is None:
            row.called.append(OrderedCall(closed.order, operator))
        elif "::" in event.name:
            outer.called.append(operator)
        else:  # a call of the device's driver, or the node inside the engine's work around it
            outer.called += closed.called


def _measure_backward(events: Sequence[Event]) -> float:
    """Return the seconds from the first node to the last: the rest of a pass is the way forward."""
    nodes = [event for event in events if event.kind is EventKind.NODE]
    return max(node.end for node in nodes) - min(node.start for node in nodes) if nodes else 0.0


# The events of a pass in the order of time, with the layer and the row of each ----------------------------------------


@dataclass(eq=False)
class OpenEvent:
    """An event under way, and where what happens inside it belongs.

    Attributes:
        event: The event.
        order: Which one it is in the order of time.
        layer: The layer; None for what runs outside of all.
        is_backward: Whether it runs in a node of the gradient's graph.
        row: The row that its seconds belong to; None if they belong to none.
        outer: The event around it that has the same row; None for an outermost one.
        inside: The seconds of the events inside it, without what ranges take themselves.
        called: The operators that it called.
    """

    event: Event
    order: int
    layer: str | None
    is_backward: bool
    row: Row | None = None
    outer: OpenEvent | None = None
    inside: float = 0.0
    called: list[CalledOperator] = field(default_factory=list)


class EventWalk:
    """Knows what is under way in each thread.

    Args:
        thread: The thread in which the pass ran.
        find_row: Returns the row of an operator by its name, its layer, and whether it runs on the way back.
    """

    def __init__(self, thread: int, find_row: Callable[[str, str | None, bool], Row | None]) -> None:
        self._main = thread
        self._find_row = find_row
        self._stacks: defaultdict[int, list[OpenEvent]] = defaultdict(list)
        self._makers: defaultdict[int, NodeMakers] = defaultdict(NodeMakers)
        #: By thread, the layer of the last node.
        self._last_node: dict[int, str] = {}

    def close(self, events: Sequence[Event]) -> Iterator[OpenEvent]:
        """Yield the events as they end, inner ones before those around them."""
        for order, event in enumerate(events):
            stack = self._stacks[event.thread]
            while stack and stack[-1].event.end <= event.start:
                yield _close_innermost(stack)
            stack.append(self._open(event, order, stack[-1] if stack else None))
        for stack in self._stacks.values():
            while stack:
                yield _close_innermost(stack)

    def _open(self, event: Event, order: int, around: OpenEvent | None) -> OpenEvent:
        if event.kind is EventKind.NODE:
            return self._open_node(event, order, around)
        is_backward = around is not None and around.is_backward
        if event.kind is EventKind.LAYER:
            return OpenEvent(event, order, event.name, is_backward)
        layer = self._find_layer(event, around)
        outer = _find_owner(around)
        if event.kind is EventKind.RANGE:
            return OpenEvent(event, order, layer, is_backward, outer.row if outer else None, outer)
        if event.number >= 0:
            self._makers[event.thread].add(event.number, layer)
        row = outer.row if outer is not None else self._find_row(event.name, layer, is_backward)
        return OpenEvent(event, order, layer, is_backward, row, _find_nearest_operator(outer))

    def _find_layer(self, event: Event, around: OpenEvent | None) -> str | None:
        """Return the layer of what is around an event; in another thread nothing runs but the model."""
        if around is not None:
            return around.layer
        return None if event.thread == self._main else ""

    def _open_node(self, event: Event, order: int, around: OpenEvent | None) -> OpenEvent:
        if around is not None and around.event.kind is EventKind.NODE and around.event.name == event.name:
            return OpenEvent(event, order, around.layer, True, around.row, around)  # in the engine's event around it
        if event.number >= 0:
            self._last_node[event.thread] = self._makers[event.forward_thread].find_layer(event.number) or ""
        layer = self._last_node.setdefault(event.thread, "")
        return OpenEvent(event, order, layer, True, self._find_row(event.name, layer, True))


class NodeMakers:
    """The layers whose operators made the nodes of the gradient's graph, by the numbers of the graph's sequence."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._layers: list[str | None] = []

    def add(self, number: int, layer: str | None) -> None:
        """Note that an operator in a layer began when the sequence had come to a number; a later one replaces it."""
        if self._numbers and self._numbers[-1] >= number:
            self._layers[-1] = layer
        else:
            self._numbers.append(number)
            self._layers.append(layer)

    def find_layer(self, number: int) -> str | None:
        """Return the layer of the operator that made a node; None where that is not known."""
        index = bisect_right(self._numbers, number) - 1
        return self._layers[index] if index >= 0 else None


def _close_innermost(stack: list[OpenEvent]) -> OpenEvent:
    closed = stack.pop()
    if stack:
        is_range = closed.event.kind is EventKind.RANGE  # what it takes itself is of the event around it
        stack[-1].inside += closed.inside if is_range else closed.event.end - closed.event.start
    return closed


def _find_owner(around: OpenEvent | None) -> OpenEvent | None:
    """Return what is around an event if that has its row: an operator, or a range in one.

    A node has a row too, but what it runs has rows of its own.
    """
    if around is None or around.row is None or around.event.kind is EventKind.NODE:
        return None
    return around


def _find_nearest_operator(opened: OpenEvent | None) -> OpenEvent | None:
    """Return an event, or the first around it that is no range."""
    while opened is not None and opened.event.kind is EventKind.RANGE:
        opened = opened.outer
    return opened
