"""Times by operator and by layer, and the fusions of the device: from OpenVINO's own counters and the graph it runs.

Each node of the graph that runs names the nodes of the written graph whose work it does. The time of a node that names
none is the model's own. The counters are averages over all passes, in whole microseconds: an operator has the same
share of each pass.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from profilerkit import ModelInputs, NotOfferedError
from profilerkit.backend_kit.graph_work import Executed
from profilerkit.backend_kit.ran_nodes import RanGraph, RanNode, make_node
from profilerkit.times.operator_times import CalledOperator

from .layers import find_layers
from .runs import compile_model, make_call
from .tracing import walk_call
from .walk import Walk

__all__ = ["map_fusions", "time_nodes"]

#: The passes before the timed passes.
_WARMUP = 2


def map_fusions(compiled: Any, model: Any, inputs: ModelInputs) -> list[RanNode]:
    """Return the nodes that a compiled model runs, in order, each with the original nodes whose work it does.

    Every operator of the static trace is in one of them. An operator that the device has rewritten without naming it,
    such as a product to which it adds a bias, belongs to the node that does the work of the next original node. A node
    that does the work of none, such as a copy that the device adds, belongs to the model itself.

    Raises `NotOfferedError` if nodes have equal names or a comma in one: the names in a compiled model, which have
    commas between them, do not tell such nodes apart.
    """
    paths = find_layers(model).paths
    executed = _list_executed(model, inputs, paths)
    nodes = model.get_ordered_ops()
    names = {index: str(nodes[index].get_friendly_name()) for index in executed}
    unclear = [name for name, count in Counter(names.values()).items() if count > 1 or "," in name]
    if unclear:
        raise NotOfferedError(
            f"OpenVINO lists fused nodes by their names, with commas between, and {unclear[0]!r} has a comma, or is "
            "the name of several nodes: give another with set_friendly_name, and compile the model again"
        )
    return _map_nodes(compiled, names, executed, paths)


def time_nodes(model: Any, inputs: ModelInputs, device: str, mode: str, passes: int) -> RanGraph:
    """Return the nodes that ran, with their seconds, and the seconds of each pass."""
    layers = find_layers(model)
    executed = _list_executed(model, inputs, layers.paths)
    # A copy runs, whose nodes are named by their places: names of the model may be equal, or have commas.
    numbered = model.clone()
    names = {index: f"#{index}" for index in range(len(layers.paths))}
    for node, name in zip(numbered.get_ordered_ops(), names.values(), strict=True):
        node.set_friendly_name(name)
    compiled = compile_model(numbered, inputs, device, mode, PERF_COUNT=True)
    request = compiled.create_infer_request()
    call = make_call(model, request, inputs)
    for _ in range(_WARMUP):
        call()
    before = _read_counters(request, _WARMUP)
    pass_seconds = [_time_pass(call) for _ in range(passes)]
    after = _read_counters(request, _WARMUP + passes)
    shares = _share(before, after, sum(pass_seconds))
    nodes = [
        replace(node, seconds=tuple(seconds * shares.get(node.name, 0.0) for seconds in pass_seconds))
        for node in _map_nodes(compiled, names, executed, layers.paths)
    ]
    return RanGraph(nodes, pass_seconds, layers)


# The work of the nodes that run ---------------------------------------------------------------------------------------

#: The operators of the static trace by the indices of the written nodes that they come from, in order.
_ExecutedByNode: TypeAlias = Mapping[int, Sequence[Executed]]


def _list_executed(model: Any, inputs: ModelInputs, paths: Sequence[str]) -> _ExecutedByNode:
    walk = Walk(paths)
    walk_call(walk, model, inputs)
    executed: dict[int, list[Executed]] = {}
    for op in sorted(walk.work.operators, key=lambda op: op.node):
        executed.setdefault(op.node, []).append(op)
    return executed


def _map_nodes(
    compiled: Any, names: Mapping[int, str], executed: _ExecutedByNode, paths: Sequence[str]
) -> list[RanNode]:
    """Return the nodes that run; ``names`` has the names by which the compiled model tells the written nodes."""
    running = [node for node in compiled.get_runtime_model().get_ordered_ops() if _read(node, "layerType") != "Const"]
    nodes = []
    for node, written in zip(running, _list_written(running, names, executed), strict=True):
        name, operator = node.get_friendly_name(), _read(node, "layerType")
        covered = [op for index in written for op in executed[index]]
        if covered:
            nodes.append(make_node(name, operator, covered, paths))
        else:  # it does none of the counted work, and belongs to the model itself
            nodes.append(RanNode(name, operator, "", (), CalledOperator("", is_free=True)))
    return nodes


def _list_written(running: Sequence[Any], names: Mapping[int, str], executed: Iterable[int]) -> list[list[int]]:
    """Return for each node that runs the written nodes whose work it does, of those that are executed.

    A written node that no running node names goes to the first that names the next written node, or else to the last.
    """
    indices = {names[index]: index for index in executed}
    written = [[indices[name] for name in _read_originals(node) if name in indices] for node in running]
    first = {index: named for named in reversed(written) for index in named}
    target = written[-1]
    for index in reversed(list(executed)):
        if index in first:
            target = first[index]
        else:
            target.append(index)
    return written


def _read_originals(node: Any) -> list[str]:
    return _read(node, "originalLayersNames").split(",")


def _read(node: Any, key: str) -> str:
    info = node.get_rt_info()
    return str(info[key].astype(str)) if key in info else ""


# The seconds of the nodes that run ------------------------------------------------------------------------------------


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
