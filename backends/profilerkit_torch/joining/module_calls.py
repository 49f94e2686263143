"""Layers by the calls of modules: a profile with stacks has the class of each module, and the instance's number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.trace.layer_paths import walk_outwards

from ..operator_timing.events import EventKind, Frame

__all__ = ["assign_layers_by_modules"]


def assign_layers_by_modules(frames: Sequence[Frame], trace: ModelTrace) -> int:
    """Give frames of modules the paths of their layers, from the model inwards; return how many frames got no path.

    The frames are in order of time: a caller gets its path before the frames that it calls. Frames outside of the model
    are no layers, and are not among the returned number.

    Raises `ProfileFileError` if no module of the profile has the class of the model.
    """
    root_type = trace.layers[0].type
    instances = _Instances(trace)
    calls = [frame for frame in frames if frame.event.kind is EventKind.MODULE]
    left = 0
    for call in calls:
        caller = next((frame.layer for frame in call.outer_frames if frame.layer is not None), None)  # the innermost
        if caller is not None:
            call.layer = instances.find_layer(call, caller)
            left += call.layer is None
        elif call.is_backward:
            call.layer = instances.find_repeated(call)
        else:  # the model itself, whose path is empty, or a module outside of the model
            call.layer = "" if _read_class(call) == root_type else None
    if not any(frame.layer == "" for frame in frames):
        seen = ", ".join(dict.fromkeys(map(_read_class, calls)))
        raise ProfileFileError(
            f"the profile is of another model: it has calls of modules ({seen[:200]}), but none of a {root_type}"
        )
    return left


def _read_class(call: Frame) -> str:
    """Return the class of a module that was called: ``Linear`` of the profiler's ``Linear_3``."""
    return call.event.name.rpartition("_")[0]


class _Instances:
    """The layers of the profiler's numbered instances of classes.

    The profiler numbers the instances of a class when they are first called. Inside of one layer they are called in the
    order in which the trace has the first calls of layers of that class.
    """

    def __init__(self, trace: ModelTrace) -> None:
        self._unmet = _list_called_layers(trace)
        self._met: dict[tuple[str, str], str] = {}

    def find_layer(self, call: Frame, caller: str) -> str | None:
        """Return the path of a layer called inside another; None if the caller has no further layer of the class."""
        instance = caller, call.event.name
        if instance not in self._met:
            unmet = self._unmet[caller, _read_class(call)]
            if not unmet:
                return None
            self._met[instance] = unmet.pop(0)
        return self._met[instance]

    def find_repeated(self, call: Frame) -> str | None:
        """Return the path of a layer that a checkpoint calls again in the backward pass; None if it was not called."""
        return next((path for (_, instance), path in self._met.items() if instance == call.event.name), None)


def _list_called_layers(trace: ModelTrace) -> defaultdict[tuple[str, str], list[str]]:
    """Return the paths of layers by the path of their caller and their class, in the order of their first operators."""
    first_operators = _find_first_operators(trace)
    never = len(trace.operators)
    layers = sorted(trace.layers, key=lambda layer: first_operators.get(layer.path, never))  # else as in the trace
    called: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for layer in layers:
        callers = [call.caller for call in layer.calls if call.caller is not None]
        for path in dict.fromkeys(path for path, _ in callers):
            called[path, layer.type].append(layer.path)
    return called


def _find_first_operators(trace: ModelTrace) -> dict[str, int]:
    """Return the index of the first operator in each layer, or in the layers inside it, by the layer's path."""
    first: dict[str, int] = {}
    for index, operator in enumerate(trace.operators):
        for path in walk_outwards(operator.layer):
            first.setdefault(path, index)
    return first
