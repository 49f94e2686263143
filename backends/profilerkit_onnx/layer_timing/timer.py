"""The seconds of each layer's own operators, as onnxruntime's profiler has them, in several passes."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto

from profilerkit import ModelInputs
from profilerkit.times.layer_times import LayerTime

from ..model.scopes import find_scopes
from ..operator_timing.passes import RanNode, run_nodes

__all__ = ["layer_times", "write_fused_remark"]


def layer_times(model: ModelProto, inputs: ModelInputs, level: str, device: str, passes: int) -> tuple[LayerTime, ...]:
    """Return the forward seconds of each layer's own operators; those between operators are the model's own.

    An operator that the runtime has fused of several layers is timed in the layer that has the most of its arithmetic.
    Both that layer and the others say so.
    """
    nodes, profiled = run_nodes(model, inputs, level, device, passes)
    scopes = find_scopes(model)
    calls: dict[str, set[int]] = {}
    for chain in scopes.chains:
        for scope in chain:
            calls.setdefault(scope.path, set()).add(scope.call)
    between = [single.seconds - sum(node.seconds[index] for node in nodes) for index, single in enumerate(profiled)]
    times = []
    for path, kind in scopes.types.items():
        parts = [node.seconds for node in nodes if node.layer == path] + ([] if path else [tuple(between)])
        seconds = (
            tuple(max(sum(values), 0.0) for values in zip(*parts, strict=True)) if parts else (0.0,) * len(profiled)
        )
        times.append(
            LayerTime(
                path, kind, len(calls.get(path, {0})), seconds, missing=write_fused_remark(path, nodes) if path else ""
            )
        )
    return tuple(times)


def write_fused_remark(path: str, nodes: Sequence[RanNode]) -> str:
    """Return what of a layer's time is another's, and what of its work is timed elsewhere; empty for neither."""
    guests = dict.fromkeys(other for node in nodes if node.layer == path for other in node.others)
    hosts = dict.fromkeys(node.layer for node in nodes if path in node.others)
    parts = []
    if guests:
        parts.append(f"has the time of {_list_paths(guests)} too, which the runtime has fused with it")
    if hosts:
        parts.append(f"is fused into {_list_paths(hosts)}, which has the time")
    return "; ".join(parts)


def _list_paths(paths: dict[str, None]) -> str:
    return ", ".join(repr(path) if path else "the model itself" for path in paths)
