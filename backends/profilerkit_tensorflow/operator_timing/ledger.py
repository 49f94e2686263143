"""The seconds of each operator in each layer, summed up over the nodes of a program and pass by pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from profilerkit.times.operator_times import CalledOperator, KernelTime, OperatorTime, OrderedCall

from ..trace.operator_records import BOOKKEEPING
from .events import PassTimes
from .node_owners import NodePlace

__all__ = ["Ledger"]


class _Operator(NamedTuple):
    """An operator in a layer, by its type and the layer's path."""

    type: str
    layer: str


@dataclass
class _Kernel:
    """What one kind of kernel did for an operator: its seconds by the index of the pass, its calls in the last one."""

    seconds: dict[int, float] = field(default_factory=dict)
    calls: int = 0


@dataclass
class _Entry:
    """What is summed up of an operator: its kernels by name, and what was called in the last pass."""

    kernels: dict[str, _Kernel] = field(default_factory=dict)
    called: list[CalledOperator] = field(default_factory=list)


class Ledger:
    """Sums the passes of one phase, "forward" or "backward", up to the seconds of each operator.

    Attributes:
        phase: The phase.
        whole: The seconds of each pass, without the operators of the other phase.
        layers: The layers that own a kernel of the last pass.
    """

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.whole: list[float] = []
        self.layers: frozenset[str] = frozenset()
        self._entries: dict[_Operator, _Entry] = {}

    def add(self, times: PassTimes, places: Mapping[str, NodePlace]) -> None:
        """Add a pass, with the place of each of its nodes."""
        self._forget_last_pass()
        index = len(self.whole)
        is_backward, other_seconds = self.phase == "backward", 0.0
        ran: set[str] = set()
        for node, time in times.nodes.items():
            node_place = places[node]
            if node_place.backward != is_backward:
                other_seconds += time.share_seconds
                continue
            entry = self._entries.setdefault(_Operator(node_place.type, node_place.owner.path), _Entry())
            kernel = entry.kernels.setdefault(time.op_type, _Kernel())
            kernel.seconds[index] = kernel.seconds.get(index, 0.0) + time.share_seconds
            kernel.calls += time.calls
            entry.called.append(_describe_called(node_place, time.op_type))
            ran.add(node_place.owner.path)
        self.layers = frozenset(ran)
        self.whole.append(times.wall_seconds - other_seconds)

    def _forget_last_pass(self) -> None:
        for entry in self._entries.values():
            entry.called.clear()
            for kernel in entry.kernels.values():
                kernel.calls = 0

    def list_times(self) -> Iterator[OperatorTime]:
        """Yield each operator's times so far."""
        passes = range(len(self.whole))
        for operator, entry in self._entries.items():
            kernels = [
                KernelTime(name, kernel.calls, tuple(kernel.seconds.get(index, 0.0) for index in passes))
                for name, kernel in entry.kernels.items()
            ]
            yield OperatorTime(
                operator=operator.type,
                layer=operator.layer,
                phase=self.phase,
                calls=sum(kernel.calls for kernel in kernels),
                seconds=tuple(sum(kernel.seconds[index] for kernel in kernels) for index in passes),
                kernels=tuple(kernels),
                called=tuple(OrderedCall(0, called) for called in entry.called),
            )


def _describe_called(node_place: NodePlace, kernel: str) -> CalledOperator:
    """Return a node's operator, with the others of its layer that its kernel runs too."""
    if not node_place.parts:
        return CalledOperator(node_place.type, is_free=node_place.type in BOOKKEEPING)
    inside = tuple(CalledOperator(name, is_free=name in BOOKKEEPING) for name in (node_place.type, *node_place.parts))
    return CalledOperator(kernel, inside)
