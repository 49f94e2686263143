"""Watching a rank's step: by a mode for operators, and by replaced methods of torch whose work operators do not show.

The mode is below tensors that are spread over ranks: it sees the operators on this rank's own share alone. All methods
are restored after the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit.backend_kit.replaced_attributes import replace_attribute

from ..compat.meshes import find_parameter_group, find_sharding_planner, read_group_gradients, read_group_path
from ..compat.modes import WatchingMode
from ..compat.tensors import FakeTensor, has_dispatch_rules
from ..costs import Kind, classify
from ..trace.live_bytes import LiveBytes
from .recorder import RankRecorder

__all__ = ["watch_step"]

#: Tensors of these classes are a rank's own share, or are not spread.
_PLAIN = (torch.Tensor, nn.Parameter, FakeTensor)
#: The namespaces of operators for torch's own bookkeeping: no work.
_SILENT = ("profiler", "prim")

_Method = Callable[..., Any]


@contextmanager
def watch_step(recorder: RankRecorder) -> Iterator[None]:
    """Record the operators that run inside, for the layers that they run for."""
    watch = _OperatorWatch(recorder)
    changes = _list_changes(recorder, watch)
    with ExitStack() as replaced, recorder.layers.follow():
        for owner, name, wrap in changes:
            replaced.enter_context(replace_attribute(owner, name, wrap(getattr(owner, name))))
        with watch:
            yield


class _OperatorWatch(WatchingMode):
    """Reports each operator on this rank's own share to a recorder."""

    def __init__(self, recorder: RankRecorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._is_paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and report it; a spread tensor handles its operator by others on its share."""
        kwargs = kwargs or {}
        if any(kind not in _PLAIN and has_dispatch_rules(kind) for kind in types):
            return NotImplemented
        if classify(func) is Kind.COMPOSITE:  # under tensors that are spread, torch takes nothing apart itself
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if not (self._is_paused or func.namespace in _SILENT):
            self._recorder.record(func, args, kwargs, result)
        return result

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Report no operator that runs inside."""
        was_paused, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = was_paused


# Methods of torch that are replaced while a step is watched ----------------------------------------------------------


class _Change(NamedTuple):
    """A method of a class of torch, and a function that makes its replacement."""

    owner: Any
    name: str
    wrap: Callable[[_Method], _Method]


def _list_changes(recorder: RankRecorder, watch: _OperatorWatch) -> tuple[_Change, ...]:
    """Return all methods that are changed, each with the reason."""
    group = find_parameter_group()
    planner, plans = find_sharding_planner()
    gather = partial(_work_for_group, recorder, "gathered weights")
    reduce = partial(_work_for_group, recorder, "communication")
    return (
        # ``fully_shard`` begins to gather the weights of a layer, often while another layer runs.
        _Change(group, "unshard", gather),
        # It waits for the weights, and copies them to their places in the layer.
        _Change(group, "wait_for_unshard", gather),
        # It reduces the gradients of the layer, while a node of another layer may run.
        _Change(group, "post_backward", reduce),
        # To find how a result is spread, torch runs operators at the shapes of the whole model: no work of a rank.
        *(_Change(planner, plan, partial(_leave_out, watch)) for plan in plans),
        # The memory of gathered weights is freed and allocated again, by no operator.
        _Change(torch.UntypedStorage, "resize_", partial(_count_resized, recorder.live)),
    )


def _work_for_group(recorder: RankRecorder, part: str, method: _Method) -> _Method:
    """Return a method of a group of ``fully_shard`` that counts for the group's layer and a part of memory."""

    def call(group: Any, *args: Any, **kwargs: Any) -> Any:
        path = read_group_path(group)
        with recorder.work_apart(path, part):
            result = method(group, *args, **kwargs)
        recorder.memory.keep_gradients(read_group_gradients(group), path)
        return result

    return call


def _leave_out(watch: _OperatorWatch, method: _Method) -> _Method:
    """Return a method in which no operator is reported."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with watch.pause():
            return method(*args, **kwargs)

    return call


def _count_resized(live: LiveBytes, method: _Method) -> _Method:
    """Return a method that resizes a storage and counts its new size."""

    def call(storage: Any, size: int) -> Any:
        result = method(storage, size)
        live.resize(storage)
        return result

    return call
