"""From the events of torch's profiler to the seconds of kernels in layers."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit_predict.joining.kernel_times import KernelTimes, measure_extent, sum_covered
from profilerkit_predict.joining.reading import ProfileFile
from profilerkit_predict.joining.records import Recording

from .fused import notes_of_whole_layers
from .layers import name_layers
from .trace_events import DeviceEvent, Frame, Kind, make_frames, split_events

__all__ = ["read_recording"]


def read_recording(profile: ProfileFile, trace: ModelTrace, skip: int = 0) -> Recording:
    """Return the passes in a profile of torch's, with the layer that each kernel worked for.

    Raises `ProfileFileError` for another profiler's file, one without operators, and one of another model.
    """
    if profile.kind != "torch":
        raise ProfileFileError(
            f"{profile.path} is a profile of {profile.profiler}, and the model is one of PyTorch: give the model that "
            "was profiled, such as the .onnx file"
        )
    paths = frozenset(layer.path for layer in trace.layers)
    host, device = split_events(profile, paths)
    if not any(event.kind in (Kind.OPERATOR, Kind.NODE) for event in host):
        what = f"{len(device)} kernels" if device else "no kernels"
        raise ProfileFileError(
            f"{profile.path} has no operator, and {what}; profile with activities=[ProfilerActivity.CPU, ...], for it "
            "is the operators that start kernels which are joined with layers"
        )
    frames = make_frames(host)
    windows, by = name_layers(frames, trace)
    if skip >= len(windows):
        raise ProfileFileError(f"skip={skip}: the profile has {len(windows)} passes; leave out fewer")
    walk = _Sums(windows, by, skip, (*_notes(frames), *notes_of_whole_layers(frames)))
    if device:
        return walk.of_device(device, _launches(frames), _device_name(profile.header, device))
    return walk.of_host(frames)


class _Sums:
    """Adds kernels up over the passes."""

    def __init__(self, windows: Sequence[tuple[float, float]], by: str, skip: int, notes: Sequence[str]) -> None:
        self._windows, self._by, self._skip, self._notes = windows, by, skip, tuple(notes)
        self._outside: list[float] = []
        self._starts = [start for start, _ in windows]
        self._times = KernelTimes()
        self._spans: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)

    def of_host(self, frames: Sequence[Frame]) -> Recording:
        """Return the recording of operators on the host, each without those that it called."""
        for frame in frames:
            if frame.is_work:
                self._add(frame.event.start, frame.event.end, frame.seconds, frame.event.name, frame)
        return self._make_recording(on_device=False)

    def of_device(self, events: Sequence[DeviceEvent], launches: Mapping[Any, Frame], name: str) -> Recording:
        """Return the recording of kernels on a device, each in the layer whose operator has started it."""
        unlinked = 0
        for event in events:
            frame = launches.get(("correlation", event.correlation)) or launches.get(("external", event.external))
            unlinked += frame is None
            started = event.start if frame is None else frame.event.start
            self._add(started, event.end, event.end - event.start, event.name, frame, event.start)
        notes = [f"{unlinked} kernels have no operator that has started them"] if unlinked else []
        return self._make_recording(on_device=True, device=name, notes=notes)

    def _add(
        self, at: float, end: float, seconds: float, name: str, frame: Frame | None, begin: float | None = None
    ) -> None:
        index = bisect_right(self._starts, at) - 1
        if frame is None:  # of which pass it is is not known, and it is not to be lost
            index = max(index, self._skip)
        elif index < 0 or at >= self._windows[index][1]:
            self._outside.append(seconds)
            return
        elif index < self._skip:
            return
        layer = None if frame is None else frame.layer
        phase = "backward" if frame is not None and frame.is_backward else "forward"
        self._times.add(seconds, name, layer, phase, _around(frame) if layer is None else "")
        self._spans[index].append((at if begin is None else begin, end))

    def _make_recording(self, on_device: bool, device: str = "", notes: Iterable[str] = ()) -> Recording:
        count = len(self._windows) - self._skip
        kernels = self._times.average(count)
        if not kernels:
            raise ProfileFileError("the passes of the profile have no operator in them")
        if self._outside:
            what = "kernels" if on_device else "operators"
            taken = scale_value(sum(self._outside), "s", Scale.TIME)
            notes = [*notes, f"{len(self._outside)} {what} outside of the passes are left out; they took {taken}"]
        passes = tuple(measure_extent(self._spans[self._skip + index]) for index in range(count))
        busy = sum(sum_covered(spans) for spans in self._spans.values()) / count
        return Recording(
            kernels, passes, max(mean(passes) - busy, 0.0), device, on_device, self._by, notes=(*self._notes, *notes)
        )


def _notes(frames: Sequence[Frame]) -> list[str]:
    """Return what has to be noted of the profile as a whole."""
    nodes = [frame for frame in frames if frame.event.kind is Kind.NODE]
    if not nodes or any(isinstance(frame.event.args.get("Sequence number"), int) for frame in nodes):
        return []
    return [
        f"the {len(nodes)} nodes of gradients have no sequence numbers, as in profiles of torch 1.8: their layers are "
        "not known, the time of gradients belongs to none, and layers of a training step have no rates"
    ]


def _launches(frames: Iterable[Frame]) -> dict[Any, Frame]:
    """Return the frames that start kernels: by the correlation of the driver's call, and by the operator's own id."""
    launches: dict[Any, Frame] = {}
    for frame in frames:
        if frame.event.kind is Kind.DRIVER:
            launches["correlation", frame.event.args.get("correlation")] = frame
        elif frame.is_work:
            launches["external", frame.event.args.get("External id", frame.event.args.get("external id"))] = frame
    launches.pop(("correlation", None), None)
    launches.pop(("external", None), None)
    # A call of the driver that lies in no operator may have been made in another thread for one.
    for key, frame in list(launches.items()):
        if key[0] == "correlation" and frame.outer is None:
            owner = launches.get(("external", frame.event.args.get("External id")))
            if owner is not None:
                launches[key] = owner
    return launches


def _around(frame: Frame | None) -> str:
    """Return the outermost range, else operator, that a kernel without a layer ran in."""
    if frame is None:
        return "no operator"
    around = [outer.event for outer in frame.around if outer.event.kind is not Kind.PASS]
    ranges = [event.name for event in around if event.kind is Kind.RANGE]
    return ranges[-1] if ranges else around[-1].name


def _device_name(header: Mapping[str, Any], events: Sequence[DeviceEvent]) -> str:
    """Return the name of the device, if the profile has one of its properties."""
    properties = header.get("deviceProperties")
    for device in properties if isinstance(properties, list) else ():
        if isinstance(device, dict) and isinstance(device.get("name"), str):
            return str(device["name"])
    return ""
