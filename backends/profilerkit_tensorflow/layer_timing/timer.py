"""Seconds of each layer: the model's operators timed in a profiler session, each assigned to its layer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from profilerkit import ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.call_stack import list_shown_layers
from profilerkit.times.layer_times import NOT_CALLED, LayerTime
from profilerkit.trace.layer_paths import add_outer
from profilerkit.trace.observed_runs import TimedLayers

from ..model.kinds import type_name
from ..operator_timing.node_owners import NodePlace, count_graph_runs
from ..operator_timing.session_passes import TimedModel, TimedPasses, time_model
from ..trace.operator_records import BOOKKEEPING
from ..trace.ownership import Owner
from ..trace.program import Program
from ..trace.program_trace import observe_run
from ..trace.running_order import list_running_operators

__all__ = ["describe_unrecorded", "layer_times"]


def layer_times(
    model: Any,
    inputs: ModelInputs,
    device: DeviceLike = None,
    passes: int = 10,
    backward: bool = True,
    earlier: Program | None = None,
) -> list[LayerTime]:
    """Return the seconds of each layer's own work in each of several passes, forward and, if ``backward``, backward.

    Forward is the model in inference mode, like in `execution_time`, with or without ``backward``. Backward are the
    gradients of the sum of the outputs by the trainable variables, in a training step; the step's forward pass in
    training mode, and the sum, are left out. Each has a separate profiler session.

    A layer's seconds are the time in which its kernels ran; time in which several kernels ran is divided among them,
    so that all layers together never take more than the wall time. Time between kernels belongs to no layer. Operators
    of no inner layer belong to the root, and so do all operators of a function or a saved model. A kernel that
    TensorFlow has fused from operators of several layers belongs to the layer of its convolution or product;
    ``missing`` of the other layers says so. Where a training step raises, the times are those of forward passes alone,
    and ``missing`` of the root says why.

    Args:
        model: The model; the values of its variables are restored.
        inputs: The inputs of the call.
        device: The device that runs the model; the device of the model by default.
        passes: The number of passes, at least 1.
        backward: Whether to time the gradients.
        earlier: An existing program of the model; if it fits, the model is not traced again.

    Raises `WithoutValuesError` for a Keras model that is not built, `ProfilerBusyError` if a session of
    TensorFlow's profiler runs in this process, `InputError` for no passes, and `ModelFailedError` if
    the model raises for inference, or a training step has not enough memory.
    """
    timed = time_model(model, inputs, device, passes, backward, earlier=earlier)
    runs = [] if timed.program is earlier else observe_run(timed.program, "the function that is timed", earlier)
    return TimedLayers(_list_times(timed), runs)


def _list_times(timed: TimedModel) -> Iterator[LayerTime]:
    """Yield the times of each layer."""
    program, forward, gradients, no_gradients = timed
    forward_passes = forward.sum_by_layer(backward=False)
    backward_passes = None if gradients is None else gradients.sum_by_layer(backward=True)
    calls = _count_calls(program, forward)
    unseen = _find_unseen(program, forward, gradients, calls)
    if no_gradients:
        unseen.setdefault("", []).append(no_gradients)
    for path, layer in list_shown_layers(program.layers, program.calls.calls):
        is_model = not path
        yield LayerTime(
            path=path,
            type=type_name(layer),
            calls=max(1, calls[path]) if is_model else calls[path],  # the call of a function is in no graph
            own_forward=_list_seconds(forward_passes, path),
            own_backward=None if backward_passes is None else _list_seconds(backward_passes, path),
            missing="; ".join(unseen.get(path, ())),
        )


def _list_seconds(passes: Sequence[Mapping[str, float]], path: str) -> tuple[float, ...]:
    return tuple(seconds.get(path, 0.0) for seconds in passes)


def _count_calls(program: Program, forward: TimedPasses) -> Counter[str]:
    """Return how often a pass called each layer: in a loop once for each run, in a branch not taken never."""
    runs = count_graph_runs(forward.passes[-1], forward.places)
    live = _LiveCalls()
    calls: Counter[str] = Counter()
    for call in program.calls.ownership.calls:
        if live.runs(call):
            calls[call.path] += 1 if call.graph is program.graph else runs.get(id(call.graph), 0)
    return +calls


# Work without times, in words -----------------------------------------------------------------------------------------


#: If recorded kernels ran in a smaller share of the time of a pass, others were not recorded.
_LEAST_BUSY_SHARE = 0.5
#: Passes shorter than this are mostly the cost of calling the function.
_SHORTEST_PASS_SECONDS = 0.01


class _Remark(NamedTuple):
    """The work that the times of the layer at a path leave out."""

    path: str
    text: str


def _find_unseen(
    program: Program, forward: TimedPasses, gradients: TimedPasses | None, called: Collection[str]
) -> dict[str, list[str]]:
    """Return the work that times leave out, by the path of the layer; ``called`` are the layers that a pass called."""
    remarks = [*_remark_on_uncalled(program, called), *_remark_on_forward(program, forward, called)]
    if gradients is not None:
        remarks += _remark_on_backward(gradients)
    remarks += _remark_on_compiled(forward, is_backward=False)
    if gradients is not None:
        remarks += _remark_on_compiled(gradients, is_backward=True)
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for remark in remarks:
        texts[remark.path].append(remark.text)
    return texts


def _remark_on_uncalled(program: Program, called: Iterable[str]) -> Iterator[_Remark]:
    """Remark on layers that no pass entered."""
    entered = add_outer(called)
    return (_Remark(path, NOT_CALLED) for path, _ in program.layers if path not in entered)


def _remark_on_forward(program: Program, forward: TimedPasses, called: Container[str]) -> Iterator[_Remark]:
    """Remark on layers that do work in a forward pass and have no time there, or not all of it."""
    places = forward.list_places(backward=False)
    with_time = {node_place.owner.path for node_place in places if node_place.type not in BOOKKEEPING}
    with_time |= {call.layer for call in forward.compiled}
    hosts = _find_hosts(places)
    for path in sorted(_find_working_layers(program) - with_time - hosts.keys()):
        if path in called:
            yield _Remark(path, "none of its operators ran: TensorFlow has merged them or computed them before")
    for path, kernels in hosts.items():
        part = "some of its operators run" if path in with_time else "its operators run"
        yield _Remark(path, f"{part} in the kernels of {kernels}, which have the time")


def _remark_on_backward(gradients: TimedPasses) -> Iterator[_Remark]:
    """Remark on layers whose gradients are computed in kernels of other layers."""
    for path, kernels in _find_hosts(gradients.list_places(backward=True)).items():
        yield _Remark(path, f"backward, operators of it run in the kernels of {kernels}")


def _remark_on_compiled(timed: TimedPasses, is_backward: bool) -> Iterator[_Remark]:
    """Remark on layers that call functions of XLA, and on unrecorded work of the model, in one direction."""
    direction = "backward" if is_backward else "forward"
    for call in sorted(timed.compiled):
        if call.is_gradient == is_backward:
            yield _Remark(call.layer, f"{direction}, it calls a function that XLA compiles, whose time is not recorded")
    unrecorded = describe_unrecorded(timed)
    if unrecorded:
        yield _Remark("", f"{direction}, {unrecorded}")


def _find_hosts(places: Iterable[NodePlace]) -> dict[str, str]:
    """Return, for each layer whose operators run in kernels of other layers, the paths of those layers."""
    hosts: dict[str, set[str]] = {}
    for node_place in places:
        for path in node_place.merged:
            hosts.setdefault(path, set()).add(node_place.owner.path)
    return {path: ", ".join(map(repr, sorted(kernels))) for path, kernels in hosts.items()}


def describe_unrecorded(timed: TimedPasses) -> str:
    """Return a note if no recorded kernel ran in most of the time; empty otherwise."""
    wall = sum(times.wall_seconds for times in timed.passes)
    busy = sum(times.busy_seconds for times in timed.passes)
    if busy >= _LEAST_BUSY_SHARE * wall or wall < _SHORTEST_PASS_SECONDS * len(timed.passes):
        return ""
    return (
        f"the operators that the profiler recorded ran in only {100 * busy / wall:.0f} % of the time: functions "
        "compiled by XLA and Python code are not recorded"
    )


# Calls of layers that run when their graph does -----------------------------------------------------------------------


#: Operators that do not show whether a layer's call is needed: a variable is read even if nothing needs its value.
_UNINFORMATIVE = ("ReadVariableOp", "Placeholder", "NoOp", "Const")


class _LiveCalls:
    """Finds the operators of layer calls that run; one step of a Keras RNN, for example, is traced and does not run.

    The operators that a graph's outputs need are found once for each graph.
    """

    def __init__(self) -> None:
        self._running: dict[int, set[str]] = {}

    def list_operators(self, call: Owner) -> list[Any]:
        """Return the operators of a call that run, with operators of the layers inside."""
        running = self._find_running(call.graph)
        return [operator for operator in _list_made(call) if operator.name in running]

    def runs(self, call: Owner) -> bool:
        """Return whether a call runs; a call without operators runs if the call around it does."""
        operators = _list_made(call)
        if not operators:
            return call.outer is None or call.outer.graph is None or self.runs(call.outer)
        running = self._find_running(call.graph)
        informative = [operator for operator in operators if operator.type not in _UNINFORMATIVE]
        return any(operator.name in running for operator in informative or operators)

    def _find_running(self, graph: Any) -> set[str]:
        """Return the names of the operators of a graph that run."""
        if id(graph) not in self._running:
            operators = list_running_operators(graph, graph.outputs)
            self._running[id(graph)] = {operator.name for operator in operators}
        return self._running[id(graph)]


def _list_made(call: Owner) -> list[Any]:
    """Return all operators that a call has made."""
    operators: list[Any] = call.graph.get_operations()[call.start : call.end]
    return operators


def _find_working_layers(program: Program) -> set[str]:
    """Return the layers that own operators which do any work."""
    ownership, live = program.calls.ownership, _LiveCalls()
    working = set()
    for call in ownership.calls:
        for operator in live.list_operators(call):
            if operator.type in BOOKKEEPING:
                continue
            if ownership.find(call.graph, operator.name, ownership.root) is call:
                working.add(call.path)
    return working
