"""Times by operator and by layer, and what the device has fused: from OpenVINO's own counters and the graph it runs.

Each node of the graph that runs says which nodes of the written graph it does the work of. The counters are averages
over all passes, in whole microseconds: an operator has the same share of each pass.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from profilerkit import ModelInputs, NotOfferedError
from profilerkit.backend_kit.graph_work import Executed
from profilerkit.backend_kit.ran_nodes import RanGraph, RanNode, make_node

from .layers import Layers
from .runs import compile_model, make_call
from .tracing import read_layers, walk_model

__all__ = ["map_fusions", "time_nodes"]

#: The passes before those that are timed.
_WARMUP = 2


def map_fusions(compiled: Any, model: Any, inputs: ModelInputs) -> list[RanNode]:
    """Return the nodes that a compiled model runs, in its order, with the written nodes that each does the work of.

    Every operator of the static trace is in one of them. What the device has rewritten without a trace, such as a
    product that it has split, belongs to the node that runs next.
    """
    return _map_to_layers(compiled, model, inputs, read_layers(model))


def _map_to_layers(compiled: Any, model: Any, inputs: ModelInputs, layers: Layers) -> list[RanNode]:
    walk, _, _ = walk_model(model, inputs, layers)
    nodes = model.get_ordered_ops()
    executed: dict[str, list[Executed]] = {}
    for op in walk.work.executed:
        executed.setdefault(nodes[op.node].get_friendly_name(), []).append(op)
    running = [node for node in compiled.get_runtime_model().get_ordered_ops() if _read(node, "layerType") != "Const"]
    written: list[tuple[Any, list[str]]] = []
    told = {name for node in running for name in _read_originals(node)}
    silent = [name for name in executed if name not in told]
    for node in running:
        names = [name for name in _read_originals(node) if name in executed]
        last = max((_find_position(executed, name) for name in names), default=-1)
        names += [name for name in silent if _find_position(executed, name) < last]
        silent = [name for name in silent if name not in names]
        written.append((node, names))
    if silent and written:
        written[-1][1].extend(silent)
    return [
        make_node(
            node.get_friendly_name(),
            _read(node, "layerType"),
            [op for name in names for op in executed[name]],
            layers.chains,
            near=0,  # a copy that the device adds is the model's own
        )
        for node, names in written
    ]


def _find_position(executed: Mapping[str, Sequence[Executed]], name: str) -> int:
    return executed[name][0].node


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
    whole = []
    for _ in range(passes):
        start = time.perf_counter()
        call()
        whole.append(time.perf_counter() - start)
    after = _read_counters(request, _WARMUP + passes)
    total = sum(whole)
    shares = {name: max(seconds - before.get(name, 0.0), 0.0) / total for name, seconds in after.items()}
    if not any(shares.values()):
        raise NotOfferedError("OpenVINO counts whole microseconds, and no operator of this model takes one")
    limit = max(sum(shares.values()), 1.0)  # rounded averages may add up to more than the whole
    layers = read_layers(model)
    nodes = [
        replace(node, seconds=tuple(single * shares.get(node.name, 0.0) / limit for single in whole))
        for node in _map_to_layers(compiled, model, inputs, layers)
    ]
    return RanGraph(nodes, whole, layers)


def _read_counters(request: Any, passes: int) -> dict[str, float]:
    """Return the seconds of each node in all passes so far."""
    return {entry.node_name: entry.real_time.total_seconds() * passes for entry in request.profiling_info}
