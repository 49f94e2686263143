"""The events of torch's profiler, as operators are timed by them, and the row of one operator in one layer.

What the profiler gives, found out with torch 2.13: an event for each operator with those it called inside it in time,
on the thread that ran it; an event for each node of the gradient's graph, around which lies the engine's own; and the
ranges that the user or we have opened. A node has the number that the graph's sequence had when the operator began
that made it: its layer is where that one ran. A node that adds to a parameter's gradient has no number and runs right
after the one that gave it the gradient, whose layer it gets. Nothing here needs torch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from profilerkit.times.operator_times import KernelTime, OperatorTime, OrderedCall

__all__ = ["ENGINE_PREFIX", "LAYER_RANGE", "PASS_RANGE", "Event", "EventKind", "Kernel", "Row"]

#: What our ranges are called around the call of a layer, whose path follows, and around a pass. The script of
#: ``profilerkit trace-script`` has both once more, for it runs where profilerkit is not installed.
LAYER_RANGE, PASS_RANGE = "profilerkit layer: ", "profilerkit pass"
#: What the names of the engine's events around nodes begin with.
ENGINE_PREFIX = "autograd::engine::evaluate_function: "


class EventKind(Enum):
    """What an event is."""

    PASS = "a pass, as we marked it"
    LAYER = "a call of a layer, whose path is the name"
    RANGE = "a range of the user's"
    NODE = "a node of the gradient's graph, or the engine's work around one"
    OPERATOR = "an operator"


class Kernel(NamedTuple):
    """What ran on a device, and how long."""

    name: str
    seconds: float


class Event(NamedTuple):
    """One event: where it began and ended in seconds, and the kernels that it started itself on a device."""

    kind: EventKind
    name: str
    thread: int
    start: float
    end: float
    number: int = -1
    forward_thread: int = 0
    kernels: tuple[Kernel, ...] = ()


#: Makes seconds by the number of the pass.
_by_pass: Callable[[], defaultdict[int, float]] = lambda: defaultdict(float)  # noqa: E731


@dataclass(eq=False)
class Row:
    """One operator in one layer over the passes."""

    seconds: defaultdict[int, float] = field(default_factory=_by_pass)
    kernels: defaultdict[str, defaultdict[int, float]] = field(default_factory=lambda: defaultdict(_by_pass))
    #: Of the last pass alone, with the order in which they began.
    kernel_calls: Counter[str] = field(default_factory=Counter)
    called: list[OrderedCall] = field(default_factory=list)

    def charge(self, number: int, kernel: Kernel, *, is_call: bool) -> None:
        """Add what a kernel took in a pass, or what the operator took itself; ``is_call`` unless it was counted."""
        self.seconds[number] += kernel.seconds
        self.kernels[kernel.name][number] += kernel.seconds
        self.kernel_calls[kernel.name] += is_call

    def forget_calls(self) -> None:
        """Forget the calls of the pass before."""
        self.kernel_calls.clear()
        self.called.clear()

    def sum_up(self, operator: str, layer: str, phase: str, passes: int) -> OperatorTime:
        """Return what was added up over so many passes."""
        return OperatorTime(
            operator=operator,
            layer=layer,
            phase=phase,
            calls=len(self.called),
            seconds=_list_passes(self.seconds, passes),
            kernels=tuple(
                KernelTime(name, self.kernel_calls[name], _list_passes(seconds, passes))
                for name, seconds in self.kernels.items()
            ),
            called=tuple(sorted(self.called, key=lambda call: call.order)),
        )


def _list_passes(seconds: defaultdict[int, float], passes: int) -> tuple[float, ...]:
    return tuple(seconds.get(number, 0.0) for number in range(passes))
