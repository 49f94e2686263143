"""What the times of layers leave out, and why, in words."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from torch import nn

from profilerkit.times.layer_times import NOT_CALLED
from profilerkit.trace.layer_paths import add_outer

from ..compat.modules import read_parameters
from .timed_calls import TimedRun

__all__ = ["list_remarks"]


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
    entered = add_outer(path for run in forward for path in run.of_path)  # they ran, or a layer inside them did
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
    calls = [call for run in runs for call in run.of_path.get(path, ())]
    return bool(calls) and not any(call.nodes for call in calls)
