"""From the passes that were followed to the times of each layer, and what these leave out, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

import torch
from torch import nn

from profilerkit.backend_kit.call_stack import list_shown_layers
from profilerkit.count_text import format_count, list_some
from profilerkit.times.layer_times import NOT_CALLED, CallTime, LayerTime
from profilerkit.trace.layer_paths import add_outer
from profilerkit.trace.records import LayerCall

from ..compat.compiler import runs_compiled
from ..compat.modules import read_parameters
from ..model.modules import list_modules
from .timed_calls import Elapsed, TimedRun, sum_inner_calls

__all__ = ["find_unseen_layers", "list_remarks", "sum_layer_times"]

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
    called: dict[str, list[LayerCall]] = {path: [] for run in (*forward, *timed_backward) for path in run.calls_by_path}
    doubts = _list_doubts(forward, timed_backward)
    single_calls = _list_calls(forward, backward)
    times = []
    for path, module in list_shown_layers(layers, called):
        elapsed = [_list_elapsed(path, run, is_backward=False) for run in forward]
        elapsed_back = [_list_elapsed(path, run, is_backward=True) for run in timed_backward]
        times.append(
            LayerTime(
                path=path,
                type=type(module).__name__,
                calls=len(elapsed[-1]),
                own_forward=_sum_own_seconds(elapsed),
                own_backward=_sum_own_seconds(elapsed_back) or None,
                missing="; ".join((*remarks.get(path, ()), *doubts.get(path, ()))),
                overhead=_find_overhead(elapsed) + _find_overhead(elapsed_back) if overhead_is_known else None,
                each_call=tuple(single_calls.get(path, ())),
            )
        )
    return times


def _list_elapsed(path: str, run: TimedRun, is_backward: bool) -> list[Elapsed]:
    """Return what each call of a layer took in a pass, in one direction."""
    return [call.get_elapsed(is_backward) for call in run.calls_by_path.get(path, ())]


def _sum_own_seconds(runs: Iterable[Sequence[Elapsed]]) -> tuple[float, ...]:
    """Return the seconds of a layer's calls in each pass."""
    return tuple(sum(elapsed.own_seconds for elapsed in calls) for calls in runs)


def _find_overhead(runs: Sequence[Sequence[Elapsed]]) -> float:
    """Return what was taken out of a layer's calls in a pass, the median of all; 0 for no pass."""
    taken_out = [sum(elapsed.taken_out for elapsed in calls) for calls in runs]
    return median(taken_out) if taken_out else 0.0


def _list_doubts(forward: Sequence[TimedRun], backward: Sequence[TimedRun]) -> dict[str, list[str]]:
    """Return by path where nothing of what measuring adds was taken out, in words; the whole model has those of all."""
    doubts: dict[str, list[str]] = {}
    for direction, runs in (("forward", forward), ("backward", backward)):
        calls = [call for run in runs for call in run.calls]
        paths = Counter(call.path for call in calls if call.get_elapsed(direction == "backward").is_doubtful)
        for path, number in paths.items():
            doubts.setdefault(path, []).append(_DOUBT.format(direction, format_count(number, "call")))
        inner = [path for path in paths if path]
        if inner:
            where = list_some([*map(repr, inner)], 2)
            doubts.setdefault("", []).append(_DOUBT.format(direction, f"the calls of {where}"))
    return doubts


def _list_calls(forward: Sequence[TimedRun], backward: Sequence[TimedRun | None]) -> dict[str, list[CallTime]]:
    """Return the calls of each layer one by one, pass by pass; the backward pass may be that of another run."""
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


# What the times leave out, and why ------------------------------------------------------------------------------------


def list_remarks(
    layers: Sequence[tuple[str, nn.Module]],
    unseen: Mapping[int, str],
    elsewhere: Container[int],
    forward: Sequence[TimedRun],
    backward: Sequence[TimedRun],
) -> dict[str, list[str]]:
    """Return for the path of each layer what its times leave out: forward in some passes, backward in others.

    Args:
        layers: Every module under every path it has.
        unseen: Why the calls of a module cannot be seen, by its ``id``.
        elsewhere: The ``id`` of modules that were called in another thread too.
        forward: The passes whose forward times are told.
        backward: The passes whose backward times are told.
    """
    entered = add_outer(path for run in forward for path in run.calls_by_path)  # they ran, or a layer inside them did
    remarks: dict[str, list[str]] = {}
    for path, module in layers:
        reasons = remarks[path] = []
        is_unseen = id(module) in unseen
        if is_unseen:
            reasons.append(unseen[id(module)])
        if id(module) in elsewhere:
            reasons.append("it was called in another thread too, where it is not timed")
        elif not is_unseen and path not in entered and type(module).forward is not nn.Module.forward:
            reasons.append(NOT_CALLED)
        if _is_frozen(module) and _has_no_nodes(path, backward):
            reasons.append("it has no backward pass: its weights are frozen, and nothing before it needs a gradient")
    return remarks


def _is_frozen(module: nn.Module) -> bool:
    """Return whether a module has weights of its own, and none of them is trained."""
    parameters = [parameter for parameter in read_parameters(module).values() if parameter is not None]
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def _has_no_nodes(path: str, runs: Sequence[TimedRun]) -> bool:
    """Return whether a layer was called in these passes, and made no node of the gradient's graph."""
    calls = [call for run in runs for call in run.calls_by_path.get(path, ())]
    return bool(calls) and not any(call.nodes for call in calls)


# Layers whose single calls cannot be seen from Python -----------------------------------------------------------------


def find_unseen_layers(model: nn.Module) -> dict[int, str]:
    """Return by its ``id`` each module that runs where its calls are not seen, with the reason in words."""
    unseen: dict[int, str] = {}
    for module in list_modules(model):
        where = _runs_unseen(module)
        if where:
            reason = f"it runs {where}, which has the time: single layers are not told apart there"
            unseen.update((id(inner), reason) for inner in list_modules(module)[1:])
    return unseen


def _runs_unseen(module: nn.Module) -> str:
    """Return where the modules inside a module run; an empty text where their calls are seen."""
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        return f"inside TorchScript ({name})"
    if runs_compiled(module):
        return f"inside what torch.compile has compiled ({name})"
    if isinstance(module, nn.DataParallel) and len(module.device_ids) > 1:
        return f"as a copy in the threads of {name}"
    return ""
