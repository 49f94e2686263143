"""Which layer each call of a module is that torch's profiler saw: it knows the class, and a number of the instance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from profilerkit import ModelTrace, ProfileFileError

from .trace_events import Frame, Kind

__all__ = ["name_layers_by_modules"]


def name_layers_by_modules(frames: Sequence[Frame], trace: ModelTrace) -> int:
    """Give frames of modules the paths of their layers, from the model inwards; return how many were left without.

    The profiler numbers the instances of a class as it meets them. Inside of one layer they are met in the order in
    which the trace has the first calls of its layers of that class.

    Raises `ProfileFileError` if no module of the profile has the class of the model.
    """
    children = _children(trace)
    root = trace.layers[0]
    named: dict[tuple[str, str], str] = {}
    used: defaultdict[tuple[str, str], int] = defaultdict(int)
    left = 0
    for frame in frames:
        if frame.event.kind is not Kind.MODULE:
            continue
        kind = frame.event.name.rpartition("_")[0]
        outer = next(
            (one_outer for one_outer in frame.around if one_outer is not frame and one_outer.layer is not None), None
        )
        if outer is None:
            frame.layer = "" if kind == root.type else None
            continue
        path = named.get((outer.layer or "", frame.event.name))
        if path is None:
            key = (outer.layer or "", kind)
            candidates = children.get(key, [])
            if used[key] < len(candidates):
                path = named[outer.layer or "", frame.event.name] = candidates[used[key]]
                used[key] += 1
        frame.layer = path
        left += path is None
    if not any(frame.layer == "" for frame in frames):
        classes = [frame.event.name.rpartition("_")[0] for frame in frames if frame.event.kind is Kind.MODULE]
        seen = ", ".join(dict.fromkeys(classes))
        raise ProfileFileError(
            f"the profile is of another model: it has calls of modules ({seen[:200]}), but none of a {root.type}"
        )
    return left


def _children(trace: ModelTrace) -> dict[tuple[str, str], list[str]]:
    """Return the layers by the path of their caller and their class, in the order of their first operators."""
    first: dict[str, int] = {}
    for index, operator in enumerate(trace.operators):
        path = operator.layer
        while path not in first:
            first[path] = index
            path = path.rpartition(".")[0]
    by_caller: dict[tuple[str, str], list[str]] = defaultdict(list)
    order = {layer.path: index for index, layer in enumerate(trace.layers)}
    for layer in sorted(trace.layers, key=lambda item: (first.get(item.path, len(trace.operators)), order[item.path])):
        for caller in dict.fromkeys(call.caller[0] for call in layer.calls if call.caller is not None):
            by_caller[caller, layer.type].append(layer.path)
    return by_caller
