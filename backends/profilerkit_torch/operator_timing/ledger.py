"""From the events of torch's profiler to the seconds of each operator in each layer. Nothing here needs torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from profilerkit.times.operator_times import CalledOperator, OperatorTimes, OrderedCall

from .event_walk import EventWalk, OpenEvent
from .events import Event, EventKind, Kernel
from .operator_rows import Row

__all__ = ["OperatorLedger"]


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
