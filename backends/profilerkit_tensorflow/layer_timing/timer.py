"""Seconds of each layer: the model's operators timed in a profiler session, each assigned to its layer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.call_stack import list_shown_layers
from profilerkit.errors import explain_failed_step
from profilerkit.times.layer_times import LayerTime
from profilerkit.trace.cross_check import TimedLayers

from ..model.kinds import type_name
from ..operator_timing.events import PassTimes, op_seconds
from ..operator_timing.node_owners import NodeOwners, NodePlace, count_graph_runs
from ..operator_timing.profiled_programs import failures_as, fresh_call, has_gradient, make_training_program
from ..running.devices import resolve_device
from ..running.runs import require_values
from ..trace.messages import explain_failed_pass
from ..trace.ownership import Owner
from ..trace.program import Program, trace_program
from ..trace.reachable_operators import list_running_operators
from ..trace.tracing import BOOKKEEPING, observe_run
from ..untouched.preservation import preserve

__all__ = ["layer_times"]

#: If recorded kernels ran in a smaller share of the time of a pass, others were not recorded.
_LEAST_BUSY_SHARE = 0.5
#: Passes shorter than this are mostly the cost of calling the function.
_SHORTEST_PASS_SECONDS = 0.01
#: Operators that do not show whether a layer's call is needed: a variable is read even if nothing needs its value.
_UNINFORMATIVE = ("ReadVariableOp", "Placeholder", "NoOp", "Const")


def layer_times(
    model: Any,
    inputs: ModelInputs,
    device: str | None = None,
    passes: int = 10,
    backward: bool = True,
    earlier: Program | None = None,
) -> list[LayerTime]:
    """Return the seconds of each layer's own work in each of several passes, forward and, if ``backward``, backward.

    Forward is the model in inference mode, as for `execution_time`, with or without ``backward``. Backward are the
    gradients in a training step, those of the sum of the outputs by the trainable variables; the step's forward pass in
    training mode, and that sum, are left out. Each has a separate profiler session.

    A layer's seconds are those in which its kernels ran; time in which several kernels ran is divided among them, so
    that all layers together never take more than the wall time. Time between kernels belongs to no layer. Operators of
    no inner layer belong to the root, and so do all of a function or a saved model. A kernel that TensorFlow has fused
    from operators of several layers belongs to the layer of its convolution or product; ``missing`` of the others has
    that reason.

    Args:
        model: The model; the values of its variables are restored.
        inputs: What it is called with.
        device: A device by TensorFlow's name; the device of the model by default.
        passes: How many, from 1 to 50.
        backward: Whether to time the gradients.
        earlier: An existing program of the model; if it fits, the model is not traced again.

    Raises `WithoutValuesError` for a Keras model that is not built, `ProfilerBusyError` where a session of
    TensorFlow's profiler runs in this process, `InputError` for another number of passes, and `ModelFailedError` where
    the model raises.
    """
    require_values(model, inputs)
    target = resolve_device(model, device)
    placed = tf.device(target) if device is not None else nullcontext()
    with preserve(model, variable_values=True), placed:
        fed = inputs.map(lambda leaf: tf.identity(leaf) if tf.is_tensor(leaf) else leaf)
        synchronized = not target.startswith("/CPU")
        reusable = device is None and earlier is not None and earlier.fits(model, fed)
        with failures_as(lambda error: explain_failed_pass(model, error, inputs)):
            program = earlier if reusable and earlier is not None else trace_program(model, fed, apart=True)
            forward = _time_nodes(NodeOwners(program, training=False), program, fed, passes, synchronized)
        gradients = None
        if backward and has_gradient(program):
            with failures_as(explain_failed_step):
                step, owners = make_training_program(model, fed, program)
                gradients = _time_nodes(owners, step, fed, passes, synchronized)
    runs = [] if reusable else observe_run(program, "the function that is timed", earlier)
    return TimedLayers(_layer_times(program, forward, gradients, backward), runs)


@dataclass(frozen=True)
class _Timed:
    """The passes of a program, and where each node belongs; a pass may lack nodes that another has.

    ``compiled`` are the layers that call a function compiled by XLA, and whether for a gradient.
    """

    passes: Sequence[PassTimes]
    placed: Mapping[str, NodePlace]
    compiled: AbstractSet[tuple[str, bool]]

    def seconds(self, backward: bool) -> list[dict[str, float]]:
        """Return the seconds of each layer, pass by pass."""
        items: list[dict[str, float]] = []
        for times in self.passes:
            seconds: defaultdict[str, float] = defaultdict(float)
            for executed, node in times.nodes.items():
                if self.placed[executed].backward == backward:
                    seconds[self.placed[executed].owner.path] += node.share_seconds
            items.append(seconds)
        return items

    def nodes(self, backward: bool) -> Iterable[NodePlace]:
        """Return the owners of the nodes of one direction."""
        return (node for node in self.placed.values() if node.backward == backward)

    @property
    def unseen(self) -> str:
        """A note if no recorded kernel ran in most of the time; empty otherwise."""
        wall = sum(times.wall_seconds for times in self.passes)
        busy = sum(times.busy_seconds for times in self.passes)
        if busy >= _LEAST_BUSY_SHARE * wall or wall < _SHORTEST_PASS_SECONDS * len(self.passes):
            return ""
        return (
            f"the operators that the profiler recorded ran in only {busy / wall:.0%} of the time: functions compiled "
            "by XLA and Python code are not recorded"
        )


def _time_nodes(owners: NodeOwners, program: Program, inputs: ModelInputs, passes: int, synchronized: bool) -> _Timed:
    call = fresh_call(program, inputs, synchronized)
    timed = op_seconds(call, passes).passes
    placed: dict[str, NodePlace] = {}
    for times in timed:
        placed.update(owners.locate(times))
    return _Timed(timed, placed, owners.find_compiled())


def _layer_times(program: Program, forward: _Timed, gradients: _Timed | None, backward: bool) -> Iterator[LayerTime]:
    own_forward = forward.seconds(backward=False)
    own_backward = gradients.seconds(backward=True) if gradients is not None else None
    calls = _calls(program, forward)
    missing = _find_missing(program, forward, gradients, calls)
    if backward and gradients is None:
        missing.setdefault("", []).append("it has no backward pass: none of its outputs is of a floating-point type")
    for path, layer in list_shown_layers(program.layers, program.calls.calls):
        yield LayerTime(
            path=path,
            type=type_name(layer),
            calls=calls[path] if path or calls[path] else 1,
            own_forward=tuple(seconds.get(path, 0.0) for seconds in own_forward),
            own_backward=None if own_backward is None else tuple(seconds.get(path, 0.0) for seconds in own_backward),
            missing="; ".join(missing.get(path, ())),
        )


def _calls(program: Program, forward: _Timed) -> Counter[str]:
    """Return how often a pass called each layer: in a loop once for each run, in a branch not taken never."""
    runs = count_graph_runs(forward.passes[-1], forward.placed)
    live = _Live()
    calls: Counter[str] = Counter()
    for owner in program.calls.ownership.calls:
        if live.runs(owner):
            calls[owner.path] += 1 if owner.graph is program.graph else runs.get(id(owner.graph), 0)
    return +calls


def _find_missing(
    program: Program, forward: _Timed, gradients: _Timed | None, calls: Mapping[str, int]
) -> dict[str, list[str]]:
    """Return what the times of each layer leave out."""
    reasons: dict[str, list[str]] = {}
    ran = {node.owner.path for node in forward.nodes(backward=False) if node.type not in BOOKKEEPING}
    hosts = _hosts(forward.nodes(backward=False))
    ran |= {path for path, _ in forward.compiled}
    for path in sorted(_find_working_layers(program) & calls.keys() - ran - hosts.keys()):
        reasons.setdefault(path, []).append(
            "none of its operators ran: TensorFlow has merged them or computed them before"
        )
    for path, kernels in hosts.items():
        part = "some of its operators run" if path in ran else "its operators run"
        reasons.setdefault(path, []).append(f"{part} in the kernels of {kernels}, which have the time")
    for path, kernels in _hosts(gradients.nodes(backward=True) if gradients is not None else ()).items():
        reasons.setdefault(path, []).append(f"backward, operators of it run in the kernels of {kernels}")
    for name, timed in (("forward", forward), ("backward", gradients)):
        for path, of_gradient in sorted(timed.compiled) if timed is not None else ():
            if of_gradient == (name == "backward"):
                reasons.setdefault(path, []).append(
                    f"{name}, it calls a function that XLA compiles, whose time is not recorded"
                )
        if timed is not None and timed.unseen:
            reasons.setdefault("", []).append(f"{name}, {timed.unseen}")
    return reasons


def _hosts(nodes: Iterable[NodePlace]) -> dict[str, str]:
    """Return, for each layer whose operators run in kernels of other layers, the paths of those layers."""
    hosts: dict[str, set[str]] = {}
    for node in nodes:
        for path in node.merged:
            hosts.setdefault(path, set()).add(node.owner.path)
    return {path: ", ".join(map(repr, sorted(kernels))) for path, kernels in hosts.items()}


def _find_working_layers(program: Program) -> set[str]:
    """Return the layers that own operators which do any work."""
    ownership, live = program.calls.ownership, _Live()
    return {
        owner.path
        for owner in ownership.calls
        for operator in live.operators(owner)
        if operator.type not in BOOKKEEPING and ownership.of(owner.graph, operator.name, ownership.root) is owner
    }


class _Live:
    """The operators that a graph's outputs need; others were traced but do not run, such as one step of a Keras RNN."""

    def __init__(self) -> None:
        self._names: dict[int, set[str]] = {}

    def operators(self, owner: Owner) -> list[Any]:
        """Return the operators of a layer's call that run, those of the layers inside included."""
        return [operator for operator in _window(owner) if operator.name in self._find_live(owner.graph)]

    def runs(self, owner: Owner) -> bool:
        """Return whether a call of a layer runs; one without operators runs if the call around it does."""
        operators = _window(owner)
        if not operators:
            return owner.outer is None or owner.outer.graph is None or self.runs(owner.outer)
        working = [operator for operator in operators if operator.type not in _UNINFORMATIVE]
        return any(operator.name in self._find_live(owner.graph) for operator in working or operators)

    def _find_live(self, graph: Any) -> set[str]:
        if id(graph) not in self._names:
            self._names[id(graph)] = {operator.name for operator in list_running_operators(graph, graph.outputs)}
        return self._names[id(graph)]


def _window(owner: Owner) -> list[Any]:
    operators: list[Any] = owner.graph.get_operations()[owner.start : owner.end]
    return operators
