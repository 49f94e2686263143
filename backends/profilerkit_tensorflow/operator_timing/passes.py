"""Seconds of each operator in each layer: the kernels of profiler sessions, assigned to operators and layers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
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
from .profiler_session import NodeTime, PassTimes
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
    operators: list[OperatorTime] = []
    whole: dict[str, tuple[float, ...]] = {}
    layers: dict[str, frozenset[str]] = {}
    notes: list[str] = []
    for phase, of_phase in phases.items():
        places = of_phase.places  # the passes of a training step have nodes of both phases
        nodes = {node for node, node_place in places.items() if node_place.backward == (phase == "backward")}
        operators += _list_times(of_phase, nodes, phase)
        whole[phase] = tuple(_count_without_others(times, nodes) for times in of_phase.passes)
        layers[phase] = frozenset(places[node].owner.path for node in of_phase.passes[-1].nodes.keys() & nodes)
        notes += _note_unseen(of_phase, phase)
    return OperatorTimes(
        operators=tuple(operators),
        whole=whole,
        layers=layers,
        notes=(*notes, *filter(None, [timed.no_gradients])),
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


class _NodeRun(NamedTuple):
    """A node that ran in a pass: the number of the pass, its time in it, and the node's place."""

    number: int
    time: NodeTime
    node_place: NodePlace


def _count_without_others(times: PassTimes, nodes: AbstractSet[str]) -> float:
    """Return the seconds of a pass without the seconds of other nodes than these."""
    return times.wall_seconds - sum(time.seconds for node, time in times.nodes.items() if node not in nodes)


def _list_times(timed: TimedPasses, nodes: AbstractSet[str], phase: str) -> Iterator[OperatorTime]:
    """Yield the times of each operator in each layer that these nodes run; calls are those of the last pass."""
    runs_by_operator: defaultdict[tuple[str, str], list[_NodeRun]] = defaultdict(list)
    for number, times in enumerate(timed.passes):
        for node, time in times.nodes.items():
            if node in nodes:
                node_place = timed.places[node]
                runs_by_operator[node_place.type, node_place.owner.path].append(_NodeRun(number, time, node_place))
    passes = len(timed.passes)
    for (operator, layer), runs in runs_by_operator.items():
        names = dict.fromkeys(run.time.op_type for run in runs)
        kernels = tuple(_sum_kernel(name, [run for run in runs if run.time.op_type == name], passes) for name in names)
        last = [run for run in runs if run.number == passes - 1]
        yield OperatorTime(
            operator=operator,
            layer=layer,
            phase=phase,
            calls=sum(kernel.calls for kernel in kernels),
            seconds=tuple(map(sum, zip(*(kernel.seconds for kernel in kernels), strict=True))),
            kernels=kernels,
            called=tuple(OrderedCall(0, _describe_called(run.node_place, run.time.op_type)) for run in last),
        )


def _sum_kernel(name: str, runs: Sequence[_NodeRun], passes: int) -> KernelTime:
    """Return the times of one kind of kernel."""
    seconds = [0.0] * passes
    for run in runs:
        seconds[run.number] += run.time.seconds
    calls = sum(run.time.calls for run in runs if run.number == passes - 1)
    return KernelTime(name, calls, tuple(seconds))


def _describe_called(node_place: NodePlace, kernel: str) -> CalledOperator:
    """Return a node's operator, with the others of its layer that its kernel runs too."""
    if not node_place.parts:
        return CalledOperator(node_place.type, is_free=node_place.type in BOOKKEEPING)
    inside = tuple(CalledOperator(name, is_free=name in BOOKKEEPING) for name in (node_place.type, *node_place.parts))
    return CalledOperator(kernel, inside)
