"""From the passes that were followed to the times of each layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from torch import nn

from profilerkit.backend_kit.call_stack import list_shown_layers
from profilerkit.times.layer_times import CallTime, LayerTime
from profilerkit.times.wording import format_count

from .timeline import TimedRun, inclusive

__all__ = ["sum_layer_times"]

_DOUBT = "{}, what measuring adds is still in the time of {}: the calibration says more than was measured in all"


def sum_layer_times(
    layers: Iterable[tuple[str, nn.Module]],
    forward: Sequence[TimedRun],
    backward: Sequence[TimedRun | None],
    remarks: Mapping[str, Sequence[str]],
    overhead_is_known: bool = True,
) -> list[LayerTime]:
    """Return the times of each layer.

    Args:
        layers: Every module under every path it has.
        forward: The passes whose forward times are returned, at least one.
        backward: For each the pass whose backward times are returned, the same or another; None for one without.
        remarks: For each path what its times leave out, in words.
        overhead_is_known: Whether what measuring adds was measured and taken out.
    """
    timed_backward = [run for run in backward if run is not None]
    runs = [*forward, *timed_backward]
    calls: dict[str, list[Any]] = {path: [] for run in runs for path in run.of_path}
    doubts = _doubts(forward, timed_backward)
    each_call = _calls(forward, backward)
    return [
        LayerTime(
            path=path,
            type=type(module).__name__,
            calls=len(forward[-1].of_path.get(path, ())),
            own_forward=tuple(sum(call.forward.own_seconds for call in run.of_path.get(path, ())) for run in forward),
            own_backward=tuple(
                sum(call.backward.own_seconds for call in run.of_path.get(path, ())) for run in timed_backward
            )
            or None,
            missing="; ".join((*remarks.get(path, ()), *doubts.get(path, ()))),
            overhead=_overhead(path, forward, timed_backward) if overhead_is_known else None,
            each_call=tuple(each_call.get(path, ())),
        )
        for path, module in list_shown_layers(layers, calls)
    ]


def _doubts(forward: Sequence[TimedRun], backward: Sequence[TimedRun]) -> dict[str, list[str]]:
    """Return by path where nothing of what measuring adds was taken out, in words; the whole model has those of all."""
    doubts: dict[str, list[str]] = {}
    for direction, runs in (("forward", forward), ("backward", backward)):
        paths = Counter(call.path for run in runs for call in run.calls if getattr(call, direction).is_doubtful)
        for path, number in paths.items():
            doubts.setdefault(path, []).append(_DOUBT.format(direction, format_count(number, "call")))
        inner = [path for path in paths if path]
        if inner:
            where = (
                f"the calls of {', '.join(map(repr, inner[:2]))}{f' and {len(inner) - 2} more' if inner[2:] else ''}"
            )
            doubts.setdefault("", []).append(_DOUBT.format(direction, where))
    return doubts


def _overhead(path: str, forward: Sequence[TimedRun], backward: Sequence[TimedRun]) -> float:
    taken = [sum(call.forward.taken_out for call in run.of_path.get(path, ())) for run in forward]
    taken_backward = [sum(call.backward.taken_out for call in run.of_path.get(path, ())) for run in backward]
    return median(taken) + (median(taken_backward) if taken_backward else 0.0)


def _calls(forward: Sequence[TimedRun], backward: Sequence[TimedRun | None]) -> dict[str, list[CallTime]]:
    """Return the calls of each layer one by one, pass by pass."""
    calls: dict[str, list[CallTime]] = {}
    for index, (forward_run, backward_run) in enumerate(zip(forward, backward, strict=True)):
        forward_calls, backward_calls = dict(_seconds(forward_run)), dict(_seconds(backward_run))
        for path, number in {**forward_calls, **backward_calls}:
            forward_seconds, own_forward, *_ = forward_calls.get((path, number), (None, None))
            *_, backward_seconds, own_backward = backward_calls.get((path, number), (None, None))
            calls.setdefault(path, []).append(
                CallTime(index, number, forward_seconds, own_forward, backward_seconds, own_backward)
            )
    return calls


def _seconds(run: TimedRun | None) -> Iterator[tuple[tuple[str, int], tuple[Any, ...]]]:
    for call, whole, whole_back in inclusive(run) if run is not None else ():
        yield (call.path, call.index), (whole, call.forward.own_seconds, whole_back, call.backward.own_seconds)
