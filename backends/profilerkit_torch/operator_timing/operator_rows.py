"""One operator in one layer: its seconds, kernels and calls over the passes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from profilerkit.times.operator_times import KernelTime, OperatorTime, OrderedCall

from .events import Kernel

__all__ = ["Row"]

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
