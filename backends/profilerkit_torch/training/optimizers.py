"""What an optimizer of torch's keeps for its weights: what it has, or what a step of a copy makes on meta tensors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from profilerkit.arguments.structures import map_leaves
from profilerkit.backend_kit.call_stack import tensors_in
from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.error_text import error_line
from profilerkit.trace.records import WeightRecord

from ..compat import TorchDispatchMode, operator
from ..model.stored_bytes import count_stored_bytes
from ..trace.live_bytes import LiveBytes

__all__ = ["optimizer_bytes"]


def optimizer_bytes(optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
    """Return the bytes of an optimizer's state, and of what an update takes besides; a reason where they are unknown.

    A copy of the optimizer, or one of a class with its defaults, steps on meta tensors: once to make its state, once
    more to see what a step takes that has it. So any class works, the user's own too. An optimizer that has stepped has
    its state, which is counted as it is.
    """
    is_class = isinstance(optimizer, type)
    if not (issubclass(optimizer, torch.optim.Optimizer) if is_class else isinstance(optimizer, torch.optim.Optimizer)):
        return f"the state of {_name(optimizer)}, which is no torch.optim.Optimizer; give one, or the name of one"
    state_bytes = None if is_class or not optimizer.state else _count_bytes(optimizer.state)
    try:
        copy = optimizer(_make_weights(weights)) if is_class else _copy_onto_meta(optimizer)
        if state_bytes is None:
            with _WatchedStep():
                _step(copy)
        with _WatchedStep() as watched:
            _step(copy)
    except MemoryError:
        raise
    except Exception as error:  # whatever the optimizer raises
        if state_bytes is not None:
            return OptimizerBytes(state_bytes)
        return (
            f"the state of {_name(optimizer)}, which did not step on meta tensors "
            f"({type(error).__name__}: {error_line(error)}); give an optimizer that has stepped, or the name of one"
        )
    return OptimizerBytes(_count_bytes(copy.state) if state_bytes is None else state_bytes, watched.peak_bytes)


_ITEM = operator("aten._local_scalar_dense.default")


class _WatchedStep(TorchDispatchMode):
    """Watches a step: the most bytes that its tensors take. A value that it reads, of a norm say, is 1."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._live = LiveBytes()
        self.peak_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _ITEM and args[0].is_meta:
            return 1.0
        result = func(*args, **(kwargs or {}))
        if not (args and result is args[0]):  # a weight that is written to
            for tensor in tensors_in(result, torch.is_tensor):
                self._live.add(tensor)
            self.peak_bytes = max(self.peak_bytes, self._live.total)
        return result


def _name(optimizer: Any) -> str:
    return (optimizer if isinstance(optimizer, type) else type(optimizer)).__name__


def _make_weights(weights: Iterable[WeightRecord]) -> list[torch.Tensor]:
    """Return a parameter on the meta device, with a gradient, for each trainable weight."""
    parameters = []
    for weight in weights:
        if weight.trainable:
            is_packed = math.prod(weight.shape) != weight.count
            shape = (weight.count,) if is_packed else weight.shape
            dtype = getattr(torch, weight.dtype)
            parameters.append(_add_gradient(torch.empty(shape, dtype=dtype, device="meta")))
    return parameters


def _add_gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Return a parameter of a tensor, with a gradient."""
    parameter = nn.Parameter(tensor)
    parameter.grad = torch.empty_like(tensor)
    return parameter


def _copy_onto_meta(optimizer: torch.optim.Optimizer) -> Any:
    """Return a copy with the same settings over meta tensors, without calling the constructor of its class."""
    copy = object.__new__(type(optimizer))
    copy.__dict__.update(optimizer.__dict__)
    twins = {
        id(weight): _add_gradient(torch.empty_like(weight, device="meta"))
        for group in optimizer.param_groups
        for weight in group["params"]
    }
    copy.param_groups = [
        {**group, "params": [twins[id(weight)] for weight in group["params"]]} for group in optimizer.param_groups
    ]
    copy.state = defaultdict(dict)
    for weight, kept in optimizer.state.items():
        copy.state[twins.get(id(weight), weight)] = map_leaves(dict(kept), _move_state)
    return copy


def _move_state(value: Any) -> Any:
    """Return a meta tensor for one of a state; a number, such as that of the steps, keeps its value."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.clone() if value.dim() == 0 else torch.empty_like(value, device="meta")


def _step(optimizer: Any) -> None:
    """Take a step without the hooks that are registered for steps."""
    step = type(optimizer).step
    getattr(step, "__wrapped__", step)(optimizer)


def _count_bytes(state: Any) -> int:
    """Return the bytes of the tensors in a state, each once."""
    tensors = tensors_in(dict(state), torch.is_tensor)
    distinct = {id(tensor): tensor for tensor in tensors}
    return sum(map(count_stored_bytes, distinct.values()))
