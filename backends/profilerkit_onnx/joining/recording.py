"""From the file of onnxruntime's profiler to the seconds of kernels in layers.

The file has the names of the nodes that ran. Which nodes the runtime makes of a graph depends on the level of its
rewrites, which the file does not tell: this module rewrites the graph by each level, and takes the level whose nodes
have these names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

from onnx import ModelProto

from profilerkit import InputError, ModelInputs, NotOfferedError, ProfileFileError, WithoutValuesError
from profilerkit.backend_kit.ran_nodes import RanNode, explain_fusions
from profilerkit_predict.joining.reading import ProfileFile, require_passes
from profilerkit_predict.joining.records import KernelTimes, RecordedKernel, Recording, compute_layer_share

from ..running.profiled import ProfiledPass, read_passes
from ..running.sessions import LEVELS
from ..running.timing import rewrite_nodes

__all__ = ["read_recording"]

#: The least share of the time that nodes of the model have in a profile of it.
_LEAST_SHARE = 0.5
#: The suffix that `running.optimized` adds to the name of a node: its index in the written graph.
_NUMBER = re.compile(r":(\d+)")
_PROVIDER = "ExecutionProvider"


class _RewrittenGraph(NamedTuple):
    """A graph as the runtime rewrites it.

    Attributes:
        nodes: Its nodes.
        level: The level of the rewrites.
        matches: How many of the nodes in a profile have the name of one of its nodes.
    """

    nodes: list[RanNode]
    level: str
    matches: int


def read_recording(profile: ProfileFile, model: ModelProto, inputs: ModelInputs | None, skip: int = 0) -> Recording:
    """Return the passes in a profile of onnxruntime's, with the layer that each node worked for.

    Raises `ProfileFileError` for a file of another profiler or model, and for a file without passes or nodes.
    """
    passes = _read_passes(profile)
    require_passes(len(passes), skip)
    kept = passes[skip:]
    rewritten = _find_level(model, inputs, kept[-1])
    kernels = _sum_up(rewritten.nodes, kept).average(len(kept))
    share = compute_layer_share(kernels)
    if share < _LEAST_SHARE:
        names = ", ".join(dict.fromkeys(kernel.name for kernel in kept[0].kernels))
        raise ProfileFileError(
            f"the profile is of another model: the nodes that both have take {100 * share:.0f} % of its time. "
            f"The profile has {names[:200]}"
        )
    return _make_recording(rewritten, kernels, kept)


def _read_passes(profile: ProfileFile) -> list[ProfiledPass]:
    """Return the passes in a file of onnxruntime's profiler; raise `ProfileFileError` for one without operators."""
    profile.require_kind("onnxruntime", "ONNX")
    passes = read_passes([event for event in profile.list_timed() if isinstance(event.get("args"), dict)])
    if not any(single.kernels for single in passes):
        raise ProfileFileError(
            f"{profile.path} has {len(passes)} passes, and no operator in them; was the model run while the profiler "
            "was on, and end_profiling() called?"
        )
    return passes


def _find_level(model: ModelProto, inputs: ModelInputs | None, profiled: ProfiledPass) -> _RewrittenGraph:
    """Return the rewritten graph whose nodes have most of the names in a pass; of the first level of several.

    Raises `ProfileFileError` if the runtime rewrites the graph by no level.
    """
    names = [kernel.name for kernel in profiled.kernels]
    graphs: list[_RewrittenGraph] = []
    problem: Exception | None = None
    for level in LEVELS:
        try:
            nodes = rewrite_nodes(model, inputs or ModelInputs(), level)
        except (InputError, NotOfferedError, WithoutValuesError) as error:
            problem = error
            continue
        layers = _list_layers_by_name(nodes)
        graph = _RewrittenGraph(nodes, level, sum(name in layers for name in names))
        if graph.matches == len(names):
            return graph
        graphs.append(graph)
    if not graphs:
        raise ProfileFileError(f"onnxruntime cannot make the graph ready here, so nothing is joined: {problem}")
    return max(graphs, key=lambda graph: graph.matches)


def _list_layers_by_name(nodes: Sequence[RanNode]) -> dict[str, list[str | None]]:
    """Return the layers of nodes by the names that a profile of the model has for them; nodes may share a name.

    Here the name of a node contains the index of the written node (`_NUMBER`). The runtime names a node without a name
    by its operator and this index.
    """
    layers: dict[str, list[str | None]] = {}
    for node in nodes:
        number = _NUMBER.search(node.name)
        name = _NUMBER.sub("", node.name)
        if not name and number:
            name = f"{node.operator.rpartition('::')[2]}_{number[1]}"
        layers.setdefault(name, []).append(node.layer)
    return layers


def _sum_up(nodes: Sequence[RanNode], passes: Sequence[ProfiledPass]) -> KernelTimes:
    """Return the seconds of each operator in each layer; of several nodes of one name the first runs first."""
    layers_by_name = _list_layers_by_name(nodes)
    times = KernelTimes()
    for profiled in passes:
        runs: Counter[str] = Counter()
        for kernel in profiled.kernels:
            layers = layers_by_name.get(kernel.name)
            if layers is None:
                times.add(kernel.seconds, kernel.operator, None, around=kernel.name)
                continue
            layer = layers[min(runs[kernel.name], len(layers) - 1)]
            runs[kernel.name] += 1
            times.add(kernel.seconds, kernel.operator, layer, around="")
    return times


def _make_recording(
    rewritten: _RewrittenGraph, kernels: tuple[RecordedKernel, ...], passes: Sequence[ProfiledPass]
) -> Recording:
    facts = [kernel.facts for profiled in passes for kernel in profiled.kernels]
    providers = sorted({str(entry["provider"]) for entry in facts if entry.get("provider")})
    seconds = tuple(profiled.seconds for profiled in passes)
    seconds_of_kernels = sum(kernel.seconds for kernel in kernels)
    return Recording(
        kernels,
        seconds,
        max(mean(seconds) - seconds_of_kernels, 0.0),
        device=", ".join(provider.removesuffix(_PROVIDER) for provider in providers),
        on_device=any(provider != f"CPU{_PROVIDER}" for provider in providers),
        by=f"the names of the graph's nodes, as the runtime rewrites it at level {rewritten.level!r}",
        remarks=_explain_fused_layers(rewritten.nodes),
    )


def _explain_fused_layers(nodes: Sequence[RanNode]) -> dict[str, str]:
    """Return remarks on the times of layers whose nodes the runtime has fused with nodes of other layers."""
    paths = dict.fromkeys(path for node in nodes for path in (node.layer, *node.others) if path)
    remarks = {path: explain_fusions(path, nodes) for path in paths}
    return {path: remark for path, remark in remarks.items() if remark}
