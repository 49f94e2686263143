"""Seconds of each operator in each layer: the kernels of profiler sessions, assigned to operators and layers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from profilerkit import InputError, ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.count_text import list_some
from profilerkit.process.files import obstacle
from profilerkit.times.operator_times import CalledOperator, KernelTime, OperatorTime, OperatorTimes, OrderedCall
from profilerkit.trace.observed_runs import ObservedRun

from ..trace.operator_records import BOOKKEEPING
from ..trace.program_trace import count_program_macs
from .node_owners import NodePlace
from .profiler_session import PassTimes
from .session_passes import TimedPasses, time_model

__all__ = ["measure_operator_times"]


def measure_operator_times(
    model: Any,
    inputs: ModelInputs,
    device: DeviceLike = None,
    passes: int = 10,
    backward: bool = True,
    export: str | os.PathLike[str] | None = None,
) -> OperatorTimes:
    """Return the seconds of each operator in each layer, forward in inference mode and backward in a training step.

    Time in which several kernels run is divided among them. The operators are the operators of the traced graph; the
    convolution or product in a fused kernel has the kernel's time. The seconds of a whole backward pass are the seconds
    of a training step without its forward operators. With ``export`` the profile (an XSpace, which TensorBoard's
    profile page and ``xprof`` read) of the last session goes to a file.

    Raises `InputError` for no passes and for a file that cannot be written, `WithoutValuesError` for a Keras model that
    is not built, `ProfilerBusyError` if a session of TensorFlow's profiler runs in this process, `NotOfferedError`
    if this TensorFlow writes profiles that cannot be read, and `ModelFailedError` if the model raises for inference,
    or a training step has not enough memory.
    """
    problem = None if export is None else obstacle(export)
    if problem is not None:  # which would only be found after the model has run
        raise InputError(f"export={str(export)!r}: {problem}")
    timed = time_model(model, inputs, device, passes, backward, export=export)
    phases = {"forward": timed.forward, **({} if timed.gradients is None else {"backward": timed.gradients})}
    notes = [note for phase, of_phase in phases.items() for note in _note_unseen(of_phase, phase)]
    notes += filter(None, [timed.no_gradients])
    times = {phase: _sum_by_operator(of_phase, phase) for phase, of_phase in phases.items()}
    return OperatorTimes(
        operators=tuple(operator for of_phase in times.values() for operator in of_phase.operators),
        whole={phase: of_phase.whole for phase, of_phase in times.items()},
        layers={phase: of_phase.layers for phase, of_phase in times.items()},
        notes=tuple(notes),
        runs=(ObservedRun("the function that is profiled", count_program_macs(timed.program)),),
    )


def _note_unseen(timed: TimedPasses, phase: str) -> list[str]:
    """Return a note if functions that XLA compiles run in a phase: each is one call, which the profiler leaves out."""
    layers = sorted({call.layer for call in timed.compiled if call.phase == phase})
    if not layers:
        return []
    callers = list_some([repr(path) if path else "the model itself" for path in layers], 3)
    return [
        f"{phase}, the operators inside functions that XLA compiles, which TensorFlow's profiler does not record; "
        f"they are called by {callers}, and their time is outside operators"
    ]


# The sums over the nodes of a program, pass by pass -------------------------------------------------------------------


class _PhaseTimes(NamedTuple):
    """The times of one phase, "forward" or "backward".

    Attributes:
        operators: The times of each operator in each layer.
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
    """The times of one kind of kernel for an operator: its seconds in each pass, its calls in the last pass."""

    seconds: list[float]
    calls: int = 0


@dataclass
class _Entry:
    """The sums of an operator: its kernels by name, and its calls in the last pass."""

    kernels: dict[str, _Kernel] = field(default_factory=dict)
    called: list[CalledOperator] = field(default_factory=list)


def _sum_by_operator(timed: TimedPasses, phase: str) -> _PhaseTimes:
    """Return the times of a phase; the passes of a program may have operators of both."""
    nodes = {node for node, node_place in timed.places.items() if node_place.backward == (phase == "backward")}
    return _PhaseTimes(
        operators=tuple(_list_times(_sum_kernels(timed, nodes), phase)),
        whole=tuple(_count_without_others(times, nodes) for times in timed.passes),
        layers=frozenset(timed.places[node].owner.path for node in timed.passes[-1].nodes.keys() & nodes),
    )


def _count_without_others(times: PassTimes, nodes: AbstractSet[str]) -> float:
    """Return the seconds of a pass without the seconds of other nodes than these."""
    return times.wall_seconds - sum(time.share_seconds for node, time in times.nodes.items() if node not in nodes)


def _sum_kernels(timed: TimedPasses, nodes: AbstractSet[str]) -> dict[_Operator, _Entry]:
    """Return the sums of the operators that these nodes run."""
    entries: dict[_Operator, _Entry] = {}
    last = len(timed.passes) - 1
    for index, times in enumerate(timed.passes):
        for node, time in times.nodes.items():
            if node not in nodes:
                continue
            node_place = timed.places[node]
            entry = entries.setdefault(_Operator(node_place.type, node_place.owner.path), _Entry())
            kernel = entry.kernels.setdefault(time.op_type, _Kernel([0.0] * len(timed.passes)))
            kernel.seconds[index] += time.share_seconds
            if index == last:
                kernel.calls += time.calls
                entry.called.append(_describe_called(node_place, time.op_type))
    return entries


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
