"""The seconds of each operator in each layer, summed up over the nodes of a program and pass by pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from profilerkit.times.operator_times import CalledOperator, KernelTime, OperatorTime, OrderedCall

from ..trace.records import BOOKKEEPING
from .node_owners import NodePlace
from .session_passes import TimedPasses

__all__ = ["PhaseTimes", "sum_by_operator"]


class PhaseTimes(NamedTuple):
    """The times of one phase, "forward" or "backward".

    Attributes:
        operators: Those of each operator in each layer.
        whole: The seconds of each pass, without the operators of the other phase.
        layers: The layers that own a kernel of the last pass.
    """

    operators: tuple[OperatorTime, ...]
    whole: tuple[float, ...]
    layers: frozenset[str]


class _Operator(NamedTuple):
    """An operator in a layer, by its type and the layer's path."""

    type: str
    layer: str


@dataclass
class _Kernel:
    """What one kind of kernel did for an operator: its seconds in each pass, its calls in the last one."""

    seconds: list[float]
    calls: int = 0


@dataclass
class _Entry:
    """What is summed up of an operator: its kernels by name, and what was called in the last pass."""

    kernels: dict[str, _Kernel] = field(default_factory=dict)
    called: list[CalledOperator] = field(default_factory=list)


def sum_by_operator(timed: TimedPasses, phase: str) -> PhaseTimes:
    """Return the times of a phase; the passes of a program may have operators of both."""
    entries: dict[_Operator, _Entry] = {}
    whole: list[float] = []
    layers: set[str] = set()
    last = len(timed.passes) - 1
    for index, times in enumerate(timed.passes):
        other_seconds = 0.0
        for node, time in times.nodes.items():
            node_place = timed.places[node]
            if node_place.backward != (phase == "backward"):
                other_seconds += time.share_seconds
                continue
            entry = entries.setdefault(_Operator(node_place.type, node_place.owner.path), _Entry())
            kernel = entry.kernels.setdefault(time.op_type, _Kernel([0.0] * len(timed.passes)))
            kernel.seconds[index] += time.share_seconds
            if index == last:
                kernel.calls += time.calls
                entry.called.append(_describe_called(node_place, time.op_type))
                layers.add(node_place.owner.path)
        whole.append(times.wall_seconds - other_seconds)
    return PhaseTimes(tuple(_list_times(entries, phase)), tuple(whole), frozenset(layers))


def _list_times(entries: dict[_Operator, _Entry], phase: str) -> Iterator[OperatorTime]:
    for operator, entry in entries.items():
        kernels = [KernelTime(name, kernel.calls, tuple(kernel.seconds)) for name, kernel in entry.kernels.items()]
        yield OperatorTime(
            operator=operator.type,
            layer=operator.layer,
            phase=phase,
            calls=sum(kernel.calls for kernel in kernels),
            seconds=tuple(map(sum, zip(*(kernel.seconds for kernel in kernels), strict=True))),
            kernels=tuple(kernels),
            called=tuple(OrderedCall(0, called) for called in entry.called),
        )


def _describe_called(node_place: NodePlace, kernel: str) -> CalledOperator:
    """Return a node's operator, with the others of its layer that its kernel runs too."""
    if not node_place.parts:
        return CalledOperator(node_place.type, is_free=node_place.type in BOOKKEEPING)
    inside = tuple(CalledOperator(name, is_free=name in BOOKKEEPING) for name in (node_place.type, *node_place.parts))
    return CalledOperator(kernel, inside)
