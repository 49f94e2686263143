"""Remarks on the gaps in the times of layers: calls that are not seen, and time that measuring may have added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import nn

from profilerkit.count_text import format_count, list_some
from profilerkit.times.layer_times import NOT_CALLED
from profilerkit.trace.layer_paths import add_outer

from ..compat.compiler import runs_compiled
from ..compat.modules import read_parameters
from ..model.modules import list_modules
from .timed_calls import TimedRun

__all__ = ["ELSEWHERE", "Remark", "find_unseen_layers", "list_remarks"]

_DOUBT = "{}, what measuring adds is still in the time of {}: the calibration says more than was measured in all"
ELSEWHERE = "it was called in another thread too, where it is not timed"
_FROZEN = "it has no backward pass: its weights are frozen, and nothing before it needs a gradient"


class Remark(NamedTuple):
    """A gap in the times of the layer at a path, in words."""

    path: str
    text: str


def list_remarks(
    layers: Sequence[tuple[str, nn.Module]],
    unseen: Mapping[int, str],
    forward: Sequence[TimedRun],
    backward: Sequence[TimedRun],
) -> Iterator[Remark]:
    """Yield remarks on the gaps in the times of layers: forward in some passes, backward in others.

    Args:
        layers: Every module under every path it has.
        unseen: The reason why calls of a module are not seen, by its ``id``.
        forward: The passes whose forward times are reported.
        backward: The passes whose backward times are reported.
    """
    entered = add_outer(path for run in forward for path in run.calls_by_path)  # they ran, or a layer inside them did
    for path, module in layers:
        if id(module) in unseen:
            yield Remark(path, unseen[id(module)])
        elif path not in entered and _has_code(module):
            yield Remark(path, NOT_CALLED)
        if _is_frozen(module) and _has_no_nodes(path, backward):
            yield Remark(path, _FROZEN)
    yield from _list_doubts(forward, is_backward=False)
    yield from _list_doubts(backward, is_backward=True)


def _has_code(module: nn.Module) -> bool:
    """Return whether a module can be called: not a list of modules. The class of a script has no ``forward``."""
    return getattr(type(module), "forward", None) is not nn.Module.forward


def _is_frozen(module: nn.Module) -> bool:
    """Return whether a module has weights of its own, of which none is trained."""
    parameters = [parameter for parameter in read_parameters(module).values() if parameter is not None]
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def _has_no_nodes(path: str, runs: Sequence[TimedRun]) -> bool:
    """Return whether a layer was called in these passes, and made no node of the gradient's graph."""
    calls = [call for run in runs for call in run.calls_by_path.get(path, ())]
    return bool(calls) and not any(call.nodes for call in calls)


def _list_doubts(runs: Sequence[TimedRun], is_backward: bool) -> Iterator[Remark]:
    """Yield remarks on layers with calls that keep the overhead, and one for the whole model that names the others."""
    direction = "backward" if is_backward else "forward"
    calls = [call for run in runs for call in run.calls]
    doubtful = Counter(call.path for call in calls if call.get_elapsed(is_backward).is_doubtful)
    for path, number in doubtful.items():
        yield Remark(path, _DOUBT.format(direction, format_count(number, "call")))
    inner = [repr(path) for path in doubtful if path]
    if inner:
        yield Remark("", _DOUBT.format(direction, f"the calls of {list_some(inner, 2)}"))


# Layers whose single calls cannot be seen from Python -----------------------------------------------------------------


def find_unseen_layers(model: nn.Module) -> dict[int, str]:
    """Return the ``id`` of each module whose calls cannot be seen, with the reason in words."""
    unseen: dict[int, str] = {}
    for module in list_modules(model):
        where = _runs_unseen(module)
        if where:
            reason = f"it runs {where}, which has the time: single layers are not told apart there"
            unseen.update((id(inner), reason) for inner in list_modules(module)[1:])
    return unseen


def _runs_unseen(module: nn.Module) -> str:
    """Return where the modules inside a module run; an empty text if their calls are seen."""
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        return f"inside TorchScript ({name})"
    if runs_compiled(module):
        return f"inside what torch.compile has compiled ({name})"
    if isinstance(module, nn.DataParallel) and len(module.device_ids) > 1:
        return f"as a copy in the threads of {name}"
    return ""
