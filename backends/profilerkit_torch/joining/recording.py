"""The seconds of kernels in layers, from the events of torch's profiler."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.count_text import format_count
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit_predict.joining.reading import ProfileFile, require_passes
from profilerkit_predict.joining.records import KernelTimes, RecordedKernel, Recording, measure_extent, sum_covered

from ..operator_timing.events import EventKind, Frame, make_frames
from .layers import BY_ORDER, find_layers, has_repeated_layers
from .profiled_operators import explain_whole_layers
from .trace_events import DeviceEvent, read_operator_id, split_events
from .windows import Window

__all__ = ["read_recording"]


def read_recording(profile: ProfileFile, trace: ModelTrace, skip: int = 0) -> Recording:
    """Return the passes in a profile of torch, with the layer that each kernel worked for.

    Raises `ProfileFileError` for a file of another profiler, without operators, or of another model.
    """
    profile.require_kind("torch", "PyTorch")
    paths = frozenset(layer.path for layer in trace.layers)
    host, device = split_events(profile, paths)
    if not any(event.kind in (EventKind.OPERATOR, EventKind.NODE) for event in host):
        what = f"{len(device)} kernels" if device else "no kernels"
        raise ProfileFileError(
            f"{profile.path} has no operator, and {what}; profile with activities=[ProfilerActivity.CPU, ...], for it "
            "is the operators that start kernels which are joined with layers"
        )
    frames = make_frames(host)
    windows, by = find_layers(frames, trace)
    require_passes(len(windows), skip)
    sums = _Sums(windows, skip)
    notes = [*_note_unknown_gradients(frames, trace, by), *explain_whole_layers(frames)]
    if device:
        unlinked = sums.add_kernels(device, _Launches(frames))
        notes += [f"{format_count(unlinked, 'kernel')} without an operator that started them"] if unlinked else []
    else:
        sums.add_operators(frames)
    notes += sums.note_outside("kernels" if device else "operators")
    name = _read_device_name(profile.header) if device else ""
    passes = sums.measure_passes()
    between = max(mean(passes) - sums.measure_busy(), 0.0)
    return Recording(sums.average(), passes, between, name, bool(device), by, notes=tuple(notes))


class _Launches:
    """The frames that start kernels: calls of the device's driver, and operators.

    A kernel has the correlation of the driver's call, and the id of the operator that made this call.
    """

    def __init__(self, frames: Iterable[Frame]) -> None:
        self._calls: dict[Any, Frame] = {}
        self._operators: dict[Any, Frame] = {}
        for frame in frames:
            args = frame.event.args
            if frame.event.kind is EventKind.DRIVER:
                self._calls[args.get("correlation")] = frame
            elif frame.is_work:
                self._operators[read_operator_id(args)] = frame
        self._calls.pop(None, None)
        self._operators.pop(None, None)

    def find(self, kernel: DeviceEvent) -> Frame | None:
        """Return the frame that started a kernel on a device; None if the profile does not tell."""
        call = self._calls.get(kernel.correlation)
        if call is None:
            return self._operators.get(kernel.external)
        if call.outer is None:  # another thread may have made the call for an operator
            return self._operators.get(read_operator_id(call.event.args), call)
        return call


class _Sums:
    """Adds kernels up over the passes, except the first ``skip``."""

    def __init__(self, windows: Sequence[Window], skip: int) -> None:
        self._windows, self._skip = windows, skip
        self._starts = [window.start for window in windows]
        self._times = KernelTimes()
        #: The seconds at which kernels begin and end, by the index of the pass.
        self._spans: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
        self._outside: list[float] = []  #: the seconds of kernels outside of the passes

    def add_operators(self, frames: Sequence[Frame]) -> None:
        """Add the operators on the host, each without the operators that it called."""
        for frame in frames:
            if frame.is_work:
                self._add(frame, frame.event.name, frame.seconds, (frame.event.start, frame.event.end))

    def add_kernels(self, kernels: Sequence[DeviceEvent], launches: _Launches) -> int:
        """Add kernels on a device; return how many of them no operator has started."""
        frames = [launches.find(kernel) for kernel in kernels]
        for frame, kernel in zip(frames, kernels, strict=True):
            self._add(frame, kernel.name, kernel.end - kernel.start, (kernel.start, kernel.end))
        return frames.count(None)

    def _add(self, frame: Frame | None, name: str, seconds: float, span: tuple[float, float]) -> None:
        """Add a kernel to the pass in which a frame has started it.

        A kernel without a known start belongs to the last pass that began before it.
        """
        started = span[0] if frame is None else frame.event.start
        index = bisect_right(self._starts, started) - 1
        if index < 0 or (frame is not None and started >= self._windows[index].end):
            self._outside.append(seconds)
        elif index >= self._skip:
            self._spans[index].append(span)
            if frame is None:
                self._times.add(seconds, name, None, around="no operator")
                return
            phase = "backward" if frame.is_backward else "forward"
            self._times.add(seconds, name, frame.layer, phase, _find_surroundings(frame) if frame.layer is None else "")

    def average(self) -> tuple[RecordedKernel, ...]:
        """Return the kernels of one pass; raises `ProfileFileError` if there are none."""
        kernels = self._times.average(len(self._windows) - self._skip)
        if not kernels:
            raise ProfileFileError("the passes of the profile have no operator in them")
        return kernels

    def measure_passes(self) -> tuple[float, ...]:
        """Return the seconds of each pass."""
        return tuple(measure_extent(self._spans[index]) for index in range(self._skip, len(self._windows)))

    def measure_busy(self) -> float:
        """Return the seconds of a pass in which at least one kernel runs."""
        return sum(map(sum_covered, self._spans.values())) / (len(self._windows) - self._skip)

    def note_outside(self, what: str) -> list[str]:
        """Return a note on the kernels or operators outside of the passes, if there are any."""
        if not self._outside:
            return []
        taken = scale_value(sum(self._outside), "s", Scale.TIME)
        return [f"{len(self._outside)} {what} outside of the passes are left out; they took {taken}"]


def _note_unknown_gradients(frames: Sequence[Frame], trace: ModelTrace, by: str) -> list[str]:
    """Return a note if the layers of gradients are not known."""
    nodes = [frame for frame in frames if frame.event.kind is EventKind.NODE]
    if not nodes:
        return []
    if all(frame.event.number < 0 for frame in nodes):
        why = f"the {len(nodes)} nodes of gradients have no sequence numbers, as in profiles of torch 1.8"
    elif by == BY_ORDER and has_repeated_layers(trace):
        why = "a checkpoint runs layers again in the backward pass, and the profile names no layers"
    else:
        return []
    return [
        f"{why}: the layers of gradients are not known, their time belongs to none, and layers of a training step have "
        "no rates"
    ]


def _find_surroundings(frame: Frame) -> str:
    """Return the outermost range, else operator, that a kernel without a layer ran in."""
    around = [outer.event for outer in frame.around if outer.event.kind is not EventKind.PASS]
    ranges = [event.name for event in around if event.kind is EventKind.RANGE]
    return ranges[-1] if ranges else around[-1].name


def _read_device_name(header: Mapping[str, Any]) -> str:
    """Return the name of the device by the properties in the profile; an empty text if there are none."""
    properties = header.get("deviceProperties")
    for device in properties if isinstance(properties, list) else ():
        if isinstance(device, dict) and isinstance(device.get("name"), str):
            return str(device["name"])
    return ""
