"""The seconds of kernels in layers, from the events of torch's profiler."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import mean
from typing import Any, NamedTuple

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.count_text import format_count
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit_predict.joining.reading import ProfileFile, require_passes
from profilerkit_predict.joining.records import KernelTimes, RecordedKernel, Recording, measure_extent, sum_covered

from ..operator_timing.events import EventKind, Frame, make_frames
from .layers import BY_ORDER, find_layers
from .operator_order import has_repeated_layers
from .profiled_operators import find_whole_layer
from .trace_events import DeviceEvent, read_operator_id, split_events
from .windows import Window, find_index

__all__ = ["read_recording"]


class _Run(NamedTuple):
    """A kernel that ran on a device, or an operator on the host without the operators that it called."""

    name: str
    seconds: float
    start: float
    end: float
    frame: Frame | None  #: the operator, or the frame that started the kernel; None if it is not known


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
    passes, outside = _divide(_list_kernels(device, frames) if device else _list_operators(frames), windows)
    passes = passes[skip:]
    spans = [[(run.start, run.end) for run in runs] for runs in passes]
    seconds = tuple(map(measure_extent, spans))
    busy = sum(map(sum_covered, spans)) / len(passes)
    counted = [frame for frame in frames if windows[skip].start <= frame.event.start < windows[-1].end]
    return Recording(
        _average(passes),
        seconds,
        between=max(mean(seconds) - busy, 0.0),
        device=_read_device_name(profile.header) if device else "",
        on_device=bool(device),
        by=by,
        notes=(
            *_note_unknown_gradients(counted, trace, by),
            *_note_whole_layers(counted),
            *_note_unlinked(chain.from_iterable(passes)),
            *_note_outside(outside, "kernels" if device else "operators"),
        ),
    )


# Kernels, operators and their passes ----------------------------------------------------------------------------------


def _list_operators(frames: Iterable[Frame]) -> Iterator[_Run]:
    for frame in frames:
        if frame.is_work:
            yield _Run(frame.event.name, frame.seconds, frame.event.start, frame.event.end, frame)


def _list_kernels(kernels: Iterable[DeviceEvent], frames: Iterable[Frame]) -> Iterator[_Run]:
    """Yield the kernels, each with the call of the device's driver, or the operator, that started it.

    A kernel has the correlation of the driver's call, and the id of the operator that made this call.
    """
    calls: dict[Any, Frame] = {}
    operators: dict[Any, Frame] = {}
    for frame in frames:
        if frame.event.kind is EventKind.DRIVER:
            calls[frame.event.args.get("correlation")] = frame
        elif frame.is_work:
            operators[read_operator_id(frame.event.args)] = frame
    for ids in (calls, operators):
        ids.pop(None, None)
    for kernel in kernels:
        started_by = calls.get(kernel.correlation)
        if started_by is None:
            started_by = operators.get(kernel.external)
        elif started_by.outer is None:  # another thread may have made the call for an operator
            started_by = operators.get(read_operator_id(started_by.event.args), started_by)
        yield _Run(kernel.name, kernel.end - kernel.start, kernel.start, kernel.end, started_by)


def _divide(runs: Iterable[_Run], windows: Sequence[Window]) -> tuple[list[list[_Run]], list[_Run]]:
    """Return the runs that were started in each pass, and those outside of all passes.

    A kernel without a known start belongs to the last pass that began before it.
    """
    passes: list[list[_Run]] = [[] for _ in windows]
    outside: list[_Run] = []
    starts = [window.start for window in windows]
    for run in runs:
        if run.frame is None:
            index = bisect_right(starts, run.start) - 1
            within = passes[index] if index >= 0 else outside
        else:
            started = find_index(windows, run.frame.event.start)
            within = outside if started is None else passes[started]
        within.append(run)
    return passes, outside


def _average(passes: Sequence[Sequence[_Run]]) -> tuple[RecordedKernel, ...]:
    """Return the kernels of one pass, on average."""
    times = KernelTimes()
    for name, seconds, _, _, frame in chain.from_iterable(passes):
        if frame is None:
            times.add(seconds, name, None, around="no operator")
        else:
            phase = "backward" if frame.is_backward else "forward"
            times.add(seconds, name, frame.layer, phase, _find_surroundings(frame) if frame.layer is None else "")
    return times.average(len(passes))


def _find_surroundings(frame: Frame) -> str:
    """Return the outermost range, else operator, that a kernel without a layer ran in."""
    around = [outer.event for outer in frame.around if outer.event.kind is not EventKind.PASS]
    ranges = [event.name for event in around if event.kind is EventKind.RANGE]
    return ranges[-1] if ranges else around[-1].name


# Notes, and the device ------------------------------------------------------------------------------------------------


def _note_unknown_gradients(frames: Sequence[Frame], trace: ModelTrace, by: str) -> Iterator[str]:
    """Yield a note if the layers of gradients are not known."""
    nodes = [frame for frame in frames if frame.event.kind is EventKind.NODE]
    if nodes and all(frame.event.number < 0 for frame in nodes):
        why = "the nodes of gradients have no sequence numbers, as in profiles of torch 1.8"
    elif nodes and by == BY_ORDER and has_repeated_layers(trace):
        why = "a checkpoint runs layers again in the backward pass, and the profile names no layers"
    else:
        return
    yield (
        f"{why}: the layers of gradients are not known, their time belongs to none, and layers of a training step have "
        "no rates"
    )


def _note_whole_layers(frames: Sequence[Frame]) -> Iterator[str]:
    whole = find_whole_layer(frames)
    if whole:
        yield f"{whole}: the layers inside of it have no time of their own"


def _note_unlinked(runs: Iterable[_Run]) -> Iterator[str]:
    unlinked = sum(run.frame is None for run in runs)
    if unlinked:
        yield f"{format_count(unlinked, 'kernel')} without an operator that started them"


def _note_outside(runs: Sequence[_Run], what: str) -> Iterator[str]:
    if runs:
        taken = scale_value(sum(run.seconds for run in runs), "s", Scale.TIME)
        yield f"{len(runs)} {what} outside of the passes are left out; they took {taken}"


def _read_device_name(header: Mapping[str, Any]) -> str:
    """Return the name of the device by the properties in the profile; an empty text if there are none."""
    properties = header.get("deviceProperties")
    for device in properties if isinstance(properties, list) else ():
        if isinstance(device, dict) and isinstance(device.get("name"), str):
            return str(device["name"])
    return ""
