"""The seconds of each operator in each layer, added up from events of torch's profiler. Nothing here needs torch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from profilerkit.times.operator_times import CalledOperator, KernelTime, OperatorTime, OperatorTimes, OrderedCall

from .events import Event, EventKind, Frame, Kernel, assign_layers, make_frames

__all__ = ["OperatorLedger", "Row"]


class OperatorLedger:
    """Adds the events of one pass after another up to the seconds of each operator; no event is kept.

    Args:
        phase: The phase whose operators are added: "forward" or "backward".
        on_device: Whether the seconds of an operator are the seconds of its kernels on a device instead of the host's.
        is_free: Returns by the name of an operator whether it does no arithmetic.
    """

    def __init__(
        self, phase: str, on_device: bool = False, is_free: Callable[[str], bool] = lambda name: False
    ) -> None:
        self.phase: str = phase
        self._on_device = on_device
        self._is_free = is_free
        self._rows: dict[tuple[str, str], Row] = {}  #: by the name of the operator and the layer
        self._whole: list[float] = []
        self._layers: Counter[str] = Counter()

    def add(self, events: Sequence[Event]) -> None:
        """Take the events of passes, each marked by an event around it; events outside of passes are left out."""
        passes = [event for event in events if event.kind is EventKind.PASS]
        for window in sorted(passes, key=lambda event: event.start):
            inside = [event for event in events if window.start <= event.start < window.end and event is not window]
            self._add_pass(window, inside)

    def times(self) -> OperatorTimes:
        """Return the times added up so far."""
        passes = len(self._whole)
        rows = tuple(row.sum_up(operator, layer, self.phase, passes) for (operator, layer), row in self._rows.items())
        return OperatorTimes(rows, {self.phase: tuple(self._whole)}, {self.phase: frozenset(self._layers)})

    @property
    def calls(self) -> Mapping[str, int]:
        """How often the last pass called each layer that it called, by its path."""
        return dict(self._layers)

    def _add_pass(self, window: Event, events: Sequence[Event]) -> None:
        for earlier_row in self._rows.values():
            earlier_row.forget_calls()
        frames = make_frames(events)
        assign_layers(frames)
        self._layers = Counter(frame.event.name for frame in frames if frame.event.kind is EventKind.LAYER)
        rows: dict[Frame, Row] = {}
        for frame in frames:  # outer frames before inner frames
            if frame.event.kind not in (EventKind.NODE, EventKind.OPERATOR):
                continue
            around = _find_operator_around(frame)
            row = self._find_row(frame, window.thread) if around is None else rows.get(around)
            if row is not None:
                rows[frame] = row
                self._charge(frame, row)
        self._note_calls(frames, rows)
        self._whole.append(_measure_backward(events) if self.phase == "backward" else window.end - window.start)

    def _find_row(self, outermost: Frame, thread: Hashable) -> Row | None:
        """Return the row of an outermost operator, or of a node.

        None for an operator of the other phase, and outside of the model: forward, in the thread of the pass, outside
        of all layers. In other threads only the model runs.
        """
        is_backward = outermost.is_backward
        is_outside = outermost.layer is None and not is_backward and outermost.event.thread == thread
        if is_outside or is_backward != (self.phase == "backward"):
            return None
        return self._rows.setdefault((outermost.event.name, outermost.layer or ""), Row())

    def _charge(self, frame: Frame, row: Row) -> None:
        """Add an event's own seconds to its row: of its kernels on a device, or of the host."""
        number = len(self._whole)
        if self._on_device:
            for kernel in frame.event.kernels:
                row.charge(number, kernel)
        else:
            row.charge(number, Kernel(frame.event.name, frame.seconds), is_call=not frame.is_inner_node)

    def _note_calls(self, frames: Sequence[Frame], rows: Mapping[Frame, Row]) -> None:
        """Note in each row its outermost calls, with the operators that they called."""
        called: defaultdict[Frame, list[CalledOperator]] = defaultdict(list)  # the last first
        for order, frame in reversed(list(enumerate(frames))):  # inner frames before outer frames
            if frame not in rows:
                continue
            name, around = frame.event.name, _find_operator_around(frame)
            inside = called.pop(frame, [])
            is_free = frame.event.kind is EventKind.NODE or self._is_free(name)
            operator = CalledOperator(name, tuple(reversed(inside)), is_free)
            if around is None:
                rows[frame].called.append(OrderedCall(order, operator))
            elif "::" in name:
                called[around].append(operator)
            else:  # a call of the device's driver, or the node inside the engine's work around it
                called[around] += inside


def _find_operator_around(frame: Frame) -> Frame | None:
    """Return the operator that called an operator, or the engine's work around a node; None for an outermost event.

    Operators that a node runs have rows of their own.
    """
    caller = frame.caller
    if caller is None:
        return None
    if frame.event.kind is EventKind.NODE:
        return caller if frame.is_inner_node else None
    return caller if caller.event.kind is EventKind.OPERATOR else None


def _measure_backward(events: Sequence[Event]) -> float:
    """Return the seconds from the first node to the last: the rest of a pass is forward."""
    nodes = [event for event in events if event.kind is EventKind.NODE]
    return max(node.end for node in nodes) - min(node.start for node in nodes) if nodes else 0.0


# The row of an operator -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Row:
    """One operator in one layer over the passes."""

    #: The seconds of each kernel by the number of the pass, by its name: the operator itself is one on the host.
    kernels: defaultdict[str, defaultdict[int, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    #: Of the last pass alone, with the order in which they began.
    kernel_calls: Counter[str] = field(default_factory=Counter)
    called: list[OrderedCall] = field(default_factory=list)

    def charge(self, number: int, kernel: Kernel, *, is_call: bool = True) -> None:
        """Add the seconds of a kernel in a pass; ``is_call`` is False for a part of a call that is counted already."""
        self.kernels[kernel.name][number] += kernel.seconds
        self.kernel_calls[kernel.name] += is_call

    def forget_calls(self) -> None:
        """Forget the calls of the pass before."""
        self.kernel_calls.clear()
        self.called.clear()

    def sum_up(self, operator: str, layer: str, phase: str, passes: int) -> OperatorTime:
        """Return the times added up over so many passes."""
        kernels = {name: tuple(seconds[number] for number in range(passes)) for name, seconds in self.kernels.items()}
        return OperatorTime(
            operator=operator,
            layer=layer,
            phase=phase,
            calls=len(self.called),
            seconds=tuple(sum(seconds[number] for seconds in kernels.values()) for number in range(passes)),
            kernels=tuple(KernelTime(name, self.kernel_calls[name], seconds) for name, seconds in kernels.items()),
            called=tuple(sorted(self.called, key=lambda call: call.order)),
        )
