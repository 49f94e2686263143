"""The times of each layer, computed from the passes that were followed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from torch import nn

from profilerkit.backend_kit.call_stack import list_shown_layers
from profilerkit.times.layer_times import CallTime, LayerTime

from .remarks import Remark
from .timed_calls import Elapsed, TimedRun, sum_inner_calls

__all__ = ["sum_layer_times"]


def sum_layer_times(
    layers: Iterable[tuple[str, nn.Module]],
    forward: Sequence[TimedRun],
    backward: Sequence[TimedRun | None],
    remarks: Iterable[Remark],
    overhead_is_known: bool = True,
) -> list[LayerTime]:
    """Return the times of each layer.

    Args:
        layers: Every module under every path it has.
        forward: The passes whose forward times are returned, at least one.
        backward: For each the pass whose backward times are returned, the same or another; None if there is none.
        remarks: The gaps in the times of layers.
        overhead_is_known: Whether the time that measuring adds was measured and taken out.
    """
    timed_backward = [run for run in backward if run is not None]
    single_calls = _list_calls(forward, backward)
    gaps: defaultdict[str, list[str]] = defaultdict(list)
    for path, text in remarks:
        gaps[path].append(text)
    called = {path for run in (*forward, *timed_backward) for path in run.calls_by_path}
    times = []
    for path, module in list_shown_layers(layers, called):
        ahead = [[call.forward for call in run.calls_by_path.get(path, ())] for run in forward]
        back = [[call.backward for call in run.calls_by_path.get(path, ())] for run in timed_backward]
        times.append(
            LayerTime(
                path=path,
                type=type(module).__name__,
                calls=len(ahead[-1]),
                own_forward=_sum_own_seconds(ahead),
                own_backward=_sum_own_seconds(back) or None,
                missing="; ".join(gaps[path]),
                overhead=_find_overhead(ahead) + _find_overhead(back) if overhead_is_known else None,
                each_call=tuple(single_calls.get(path, ())),
            )
        )
    return times


def _sum_own_seconds(passes: Sequence[Sequence[Elapsed]]) -> tuple[float, ...]:
    """Return the seconds of a layer's calls in each pass."""
    return tuple(sum(elapsed.own_seconds for elapsed in calls) for calls in passes)


def _find_overhead(passes: Sequence[Sequence[Elapsed]]) -> float:
    """Return the seconds taken out of a layer's calls in a pass, the median of all passes; 0 for no pass."""
    return median(sum(elapsed.taken_out for elapsed in calls) for calls in passes) if passes else 0.0


def _list_calls(forward: Sequence[TimedRun], backward: Sequence[TimedRun | None]) -> dict[str, list[CallTime]]:
    """Return the calls of each layer one by one, pass by pass; the backward pass may belong to another run."""
    calls: dict[str, list[CallTime]] = {}
    for index, (forward_run, backward_run) in enumerate(zip(forward, backward, strict=True)):
        times: dict[tuple[str, int], CallTime] = {}
        for call, seconds, _ in sum_inner_calls(forward_run):
            times[call.path, call.index] = CallTime(index, call.index, seconds, call.forward.own_seconds)
        for call, _, seconds in sum_inner_calls(backward_run) if backward_run is not None else ():
            time = times.get((call.path, call.index), CallTime(index, call.index, None, None))
            times[call.path, call.index] = replace(time, backward=seconds, own_backward=call.backward.own_seconds)
        for (path, _), time in times.items():
            calls.setdefault(path, []).append(time)
    return calls
