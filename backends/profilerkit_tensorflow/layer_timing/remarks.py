"""The work that the times of layers leave out, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Set

from profilerkit.times.layer_times import NOT_CALLED
from profilerkit.trace.layer_paths import add_outer

from ..operator_timing.node_owners import NodePlace
from ..operator_timing.session_passes import TimedModel, TimedPasses
from ..trace.operator_records import BOOKKEEPING
from .live_calls import LiveCalls

__all__ = ["describe_unrecorded", "find_unseen"]

#: If recorded kernels ran in a smaller share of the time of a pass, others were not recorded.
_LEAST_BUSY_SHARE = 0.5
#: Passes shorter than this are mostly the cost of calling the function.
_SHORTEST_PASS_SECONDS = 0.01


def find_unseen(timed: TimedModel, called: Collection[str], live: LiveCalls) -> dict[str, list[str]]:
    """Return the work that times leave out, by the path of the layer; ``called`` are the layers that a pass called."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for path, text in _list_remarks(timed, called, live.find_working_layers()):
        texts[path].append(text)
    return texts


def _list_remarks(timed: TimedModel, called: Collection[str], working: Set[str]) -> Iterator[tuple[str, str]]:
    """Yield the path of a layer, and the work that its times leave out; ``working`` are the layers that do work."""
    program, forward, gradients, no_gradients = timed
    entered = add_outer(called)
    yield from ((path, NOT_CALLED) for path, _ in program.layers if path not in entered)
    yield from _remark_on_forward(forward, called, working)
    yield from _remark_on_unrecorded(forward, "forward")
    if gradients is not None:
        for path, kernels in _find_hosts(gradients.list_places(backward=True)).items():
            yield path, f"backward, operators of it run in the kernels of {kernels}"
        yield from _remark_on_unrecorded(gradients, "backward")
    if no_gradients:
        yield "", no_gradients


def _remark_on_forward(forward: TimedPasses, called: Container[str], working: Set[str]) -> Iterator[tuple[str, str]]:
    """Remark on layers that do work in a forward pass and have no time there, or not all of it."""
    places = forward.list_places(backward=False)
    with_time = {node_place.owner.path for node_place in places if node_place.type not in BOOKKEEPING}
    with_time |= {call.layer for call in forward.compiled}
    hosts = _find_hosts(places)
    for path in sorted(working - with_time - hosts.keys()):
        if path in called:
            yield path, "none of its operators ran: TensorFlow has merged them or computed them before"
    for path, kernels in hosts.items():
        part = "some of its operators run" if path in with_time else "its operators run"
        yield path, f"{part} in the kernels of {kernels}, which have the time"


def _remark_on_unrecorded(timed: TimedPasses, phase: str) -> Iterator[tuple[str, str]]:
    """Remark on layers that call functions of XLA, and on unrecorded work of the model, in one phase."""
    for call in sorted(timed.compiled):
        if call.phase == phase:
            yield call.layer, f"{phase}, it calls a function that XLA compiles, whose time is not recorded"
    unrecorded = describe_unrecorded(timed)
    if unrecorded:
        yield "", f"{phase}, {unrecorded}"


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
