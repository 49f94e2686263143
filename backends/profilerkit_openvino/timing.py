"""Times by operator and by layer, and the fusions of the device: from OpenVINO's own counters and the graph it runs.

Each node of the graph that runs names the nodes of the written graph whose work it does. The counters are averages over
all passes, in whole microseconds: an operator has the same share of each pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from profilerkit import ModelInputs, NotOfferedError
from profilerkit.backend_kit.graph_work import Executed
from profilerkit.backend_kit.ran_nodes import RanGraph, RanNode, make_node

from .layers import Layers, find_layers
from .runs import compile_model, make_call
from .tracing import walk_call
from .walk import Walk

__all__ = ["map_fusions", "time_nodes"]

#: The passes before the timed passes.
_WARMUP = 2


def map_fusions(compiled: Any, model: Any, inputs: ModelInputs) -> list[RanNode]:
    """Return the nodes that a compiled model runs, in order, each with the original nodes whose work it does.

    Every operator of the static trace is in one of them. An operator that the device has rewritten without naming it,
    such as a product that it has split, belongs to the node that runs next.
    """
    return _map_to_layers(compiled, model, inputs, find_layers(model))


def _map_to_layers(compiled: Any, model: Any, inputs: ModelInputs, layers: Layers) -> list[RanNode]:
    walk = Walk(layers.paths)
    walk_call(walk, model, inputs)
    executed = _group_by_name(model, walk.work.operators)
    running = [node for node in compiled.get_runtime_model().get_ordered_ops() if _read(node, "layerType") != "Const"]
    nodes, paths = [], layers.paths
    for node, names in zip(running, _list_written(running, executed), strict=True):
        covered = [op for name in names for op in executed[name]]
        # A node that the device adds, such as a copy, belongs to the model itself, like the first original node.
        nodes.append(make_node(node.get_friendly_name(), _read(node, "layerType"), covered, paths, near=0))
    return nodes


def _group_by_name(model: Any, executed: Iterable[Executed]) -> dict[str, list[Executed]]:
    """Return the operators of the static trace by the names of the written nodes that they come from, in order."""
    nodes = model.get_ordered_ops()
    by_name: dict[str, list[Executed]] = {}
    for op in executed:
        by_name.setdefault(nodes[op.node].get_friendly_name(), []).append(op)
    return by_name


def _list_written(running: Sequence[Any], executed: Mapping[str, Sequence[Executed]]) -> list[list[str]]:
    """Return for each node that runs the names of the written nodes whose work it does.

    A written node that no running node names goes to the first running node that does the work of a later node, or else
    to the last running node.
    """
    position = {name: operators[0].node for name, operators in executed.items()}
    named = {name for node in running for name in _read_originals(node)}
    waiting = [name for name in executed if name not in named]
    written = []
    for node in running:
        names = [name for name in _read_originals(node) if name in executed]
        last = max((position[name] for name in names), default=-1)
        earlier = [name for name in waiting if position[name] < last]
        waiting = [name for name in waiting if position[name] >= last]
        written.append([*names, *earlier])
    if written:
        written[-1] += waiting
    return written


def _read(node: Any, key: str) -> str:
    info = node.get_rt_info()
    return str(info[key].astype(str)) if key in info else ""


def _read_originals(node: Any) -> list[str]:
    return [name for name in _read(node, "originalLayersNames").split(",") if name]


def time_nodes(model: Any, inputs: ModelInputs, device: str, mode: str, passes: int) -> RanGraph:
    """Return the nodes that ran, with their seconds, and the seconds of each pass."""
    compiled = compile_model(model, inputs, device, mode, PERF_COUNT=True)
    request = compiled.create_infer_request()
    call = make_call(model, request, inputs)
    for _ in range(_WARMUP):
        call()
    before = _read_counters(request, _WARMUP)
    pass_seconds = [_time_pass(call) for _ in range(passes)]
    after = _read_counters(request, _WARMUP + passes)
    shares = _share(before, after, sum(pass_seconds))
    layers = find_layers(model)
    nodes = [
        replace(node, seconds=tuple(seconds * shares.get(node.name, 0.0) for seconds in pass_seconds))
        for node in _map_to_layers(compiled, model, inputs, layers)
    ]
    return RanGraph(nodes, pass_seconds, layers)


def _time_pass(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _share(before: Mapping[str, float], after: Mapping[str, float], total: float) -> dict[str, float]:
    """Return the share of each node in the seconds of all timed passes, by the counters before and after these."""
    shares = {name: max(seconds - before.get(name, 0.0), 0.0) / total for name, seconds in after.items()}
    if not any(shares.values()):
        raise NotOfferedError("OpenVINO counts whole microseconds, and no operator of this model takes one")
    limit = max(sum(shares.values()), 1.0)  # rounded averages may add up to more than the whole
    return {name: share / limit for name, share in shares.items()}


def _read_counters(request: Any, passes: int) -> dict[str, float]:
    """Return the seconds of each node in all of so many passes, of which OpenVINO tells the mean."""
    return {entry.node_name: entry.real_time.total_seconds() * passes for entry in request.profiling_info}
