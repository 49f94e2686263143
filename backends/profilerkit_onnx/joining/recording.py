"""From the file of onnxruntime's profiler to the seconds of kernels in layers.

The file has the nodes of the graph that was run, by their names. What the runtime makes of a graph depends on the level
of its rewrites: the graph is rewritten here by each level, and the one is taken whose nodes the file has.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import mean
from typing import Any

from onnx import ModelProto

from profilerkit import InputError, ModelInputs, NotOfferedError, ProfileFileError, WithoutValuesError
from profilerkit.backend_kit.ran_nodes import RanNode, explain_fusions
from profilerkit_predict.joining.reading import ProfileFile
from profilerkit_predict.joining.records import RecordedKernel, Recording

from ..operator_timing.passes import rewrite_nodes
from ..running.profiled import ProfiledPass, passes_in
from ..running.sessions import LEVELS

__all__ = ["read_recording"]

#: The least share of the time that nodes of the model have in a profile of it.
_LEAST = 0.5
#: What `rewriting` adds to the name of a node.
_NUMBER = re.compile(r":(\d+)")
_PROVIDER = "ExecutionProvider"


def read_recording(profile: ProfileFile, model: ModelProto, inputs: ModelInputs | None, skip: int = 0) -> Recording:
    """Return the passes in a profile of onnxruntime's, with the layer that each node worked for.

    Raises `ProfileFileError` for another profiler's file, one without passes or nodes, and one of another model.
    """
    if profile.kind != "onnxruntime":
        raise ProfileFileError(
            f"{profile.path} is a profile of {profile.profiler}, and the model is one of ONNX: give the model that was "
            "profiled"
        )
    passes = passes_in([event for event in profile.events if _is_whole(event)])
    if not any(single.nodes for single in passes):
        raise ProfileFileError(
            f"{profile.path} has {len(passes)} passes, and no operator in them; was the model run while the profiler "
            "was on, and end_profiling() called?"
        )
    if skip >= len(passes):
        raise ProfileFileError(f"skip={skip}: the profile has {len(passes)} passes; leave out fewer")
    kept = passes[skip:]
    nodes, level = _best_level(model, inputs, kept)
    kernels = _kernels(nodes, kept)
    share = sum(kernel.seconds for kernel in kernels if kernel.layer is not None) / sum(
        kernel.seconds for kernel in kernels
    )
    if share < _LEAST:
        names = ", ".join(dict.fromkeys(str(event["name"]) for event in kept[0].nodes))
        raise ProfileFileError(
            f"the profile is of another model: the nodes that both have take {share:.0%} of its time. The profile has "
            f"{names[:200]}"
        )
    return _make_recording(nodes, kernels, kept, level)


def _is_whole(event: dict[str, Any]) -> bool:
    """Return whether an event has what is read of it."""
    numbers = (event.get("ts"), event.get("dur"))
    is_timed = all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers)
    return is_timed and isinstance(event.get("name"), str) and isinstance(event.get("args"), dict)


def _best_level(
    model: ModelProto, inputs: ModelInputs | None, passes: Sequence[ProfiledPass]
) -> tuple[list[RanNode], str]:
    """Return the nodes of the level of rewrites whose names are most of the profile's, and the level."""
    names = [event["name"] for event in passes[-1].nodes]
    best: tuple[int, list[RanNode], str] | None = None
    problem: Exception | None = None
    for level in LEVELS:
        try:
            nodes = rewrite_nodes(model, inputs or ModelInputs(), level, "cpu")
        except (InputError, NotOfferedError, WithoutValuesError) as error:
            problem = error
            continue
        by_name = _by_profiled_name(nodes)
        matches = sum(name in by_name for name in names)
        if best is None or matches > best[0]:
            best = matches, nodes, level
        if matches == len(names):
            break
    if best is None:
        raise ProfileFileError(f"onnxruntime cannot make the graph ready here, so nothing is joined: {problem}")
    return best[1], best[2]


def _by_profiled_name(nodes: Sequence[RanNode]) -> dict[str, list[str | None]]:
    """Return the layers of nodes by what a profile of the model calls them; several nodes may share a name.

    Here each name has the index of the written node behind it (`_NUMBER`). The runtime calls a node without a name by
    its operator and that index.
    """
    layers: dict[str, list[str | None]] = {}
    for node in nodes:
        number = _NUMBER.search(node.name)
        name = _NUMBER.sub("", node.name)
        if not name and number:
            name = f"{node.operator.rpartition('::')[2]}_{number[1]}"
        layers.setdefault(name, []).append(node.layer)
    return layers


def _kernels(nodes: Sequence[RanNode], passes: Sequence[ProfiledPass]) -> tuple[RecordedKernel, ...]:
    layers = _by_profiled_name(nodes)
    seconds: defaultdict[tuple[str, str | None, str], float] = defaultdict(float)
    calls: defaultdict[tuple[str, str | None, str], int] = defaultdict(int)
    for single in passes:
        met: Counter[str] = Counter()
        for event in single.nodes:
            name = event["name"]
            of_name = layers.get(name, [None])
            operator = str(event["args"].get("op_name", name))
            key = (operator, of_name[min(met[name], len(of_name) - 1)], "" if name in layers else name)
            met[name] += 1
            seconds[key] += event["dur"] / 1e6
            calls[key] += 1
    return tuple(
        RecordedKernel(operator, layer, seconds[key] / len(passes), calls[key] / len(passes), around=around)
        for key in seconds
        for operator, layer, around in (key,)
    )


def _make_recording(
    nodes: Sequence[RanNode], kernels: tuple[RecordedKernel, ...], passes: Sequence[ProfiledPass], level: str
) -> Recording:
    providers = sorted(
        {str(event["args"].get("provider", "")) for single in passes for event in single.nodes} - {"", "None"}
    )
    whole = tuple(single.seconds for single in passes)
    remarks = {path: explain_fusions(path, nodes) for node in nodes for path in (node.layer, *node.others) if path}
    return Recording(
        kernels,
        whole,
        max(mean(whole) - sum(kernel.seconds for kernel in kernels), 0.0),
        on_device=any(provider != f"CPU{_PROVIDER}" for provider in providers),
        by=f"the names of the graph's nodes, as the runtime rewrites it at level {level!r}",
        remarks={path: remark for path, remark in remarks.items() if remark},
        notes=(f"ran on {', '.join(provider.removesuffix(_PROVIDER) for provider in providers)}",) if providers else (),
    )
