"""Copies of torch's optimizers on meta tensors, which step without values: their state, and the bytes of a step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
from torch import nn

from profilerkit.arguments.structures import map_leaves
from profilerkit.backend_kit.call_stack import tensors_in
from profilerkit.trace.records import WeightRecord

from ..compat.modes import TorchDispatchMode
from ..compat.operators import find_operator
from ..model.storages import count_stored_bytes
from ..trace.live_bytes import LiveBytes

__all__ = ["copy_onto_meta", "count_state_bytes", "list_inner", "make_on_meta", "measure_step"]

#: Reads the value of a tensor with one element, as ``tensor.item()`` does.
_READ_VALUE = find_operator("aten._local_scalar_dense.default")
#: The attribute of a weight's stand-in on the meta device that has the device where the weight's state would be.
_DEVICE = "_profilerkit_device"
#: The devices on which torch updates the weights of a group all at once by default.
_WITH_LISTS = ("cuda", "mtia", "xpu")


def make_on_meta(kind: type[Any], weights: Iterable[WeightRecord]) -> Any:
    """Return an optimizer of a class, with its defaults, for the trainable weights."""
    parameters = []
    for weight in weights:
        if weight.trainable:
            is_packed = math.prod(weight.shape) != weight.count
            shape = (weight.count,) if is_packed else weight.shape
            parameters.append(_add_gradient(torch.empty(shape, dtype=getattr(torch, weight.dtype), device="meta")))
    return kind(parameters)


def copy_onto_meta(optimizer: torch.optim.Optimizer) -> Any:
    """Return a copy with the same settings over meta tensors, without calling the constructor of its class.

    The copy has its own groups, weights and state, which a step changes; all else is shared.
    """
    if list_inner(optimizer) or isinstance(getattr(type(optimizer), "param_groups", None), property):
        raise TypeError("it steps by another optimizer, which the step of a copy would change")
    copy = object.__new__(type(optimizer))
    copy.__dict__.update(optimizer.__dict__)
    stand_ins = {
        id(weight): _make_stand_in(weight, is_fused=bool(group.get("fused")))
        for group in optimizer.param_groups
        for weight in group["params"]
    }
    copy.param_groups = [
        {**group, **_choose_lists(group), "params": [stand_ins[id(weight)] for weight in group["params"]]}
        for group in optimizer.param_groups
    ]
    copy.state = defaultdict(dict)
    for weight, kept in optimizer.state.items():
        copy.state[stand_ins.get(id(weight), weight)] = map_leaves(dict(kept), _move_state)
    return copy


def list_inner(optimizer: Any) -> list[torch.optim.Optimizer]:
    """Return the optimizers in attributes of an optimizer."""
    return [value for value in vars(optimizer).values() if isinstance(value, torch.optim.Optimizer)]


def _add_gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Return a parameter of a tensor, with a gradient."""
    parameter = nn.Parameter(tensor)
    parameter.grad = torch.empty_like(tensor)
    return parameter


def _choose_lists(group: dict[str, Any]) -> dict[str, bool]:
    """Return the setting ``foreach`` that torch would choose for the device of a group's weights; nothing if it is set.

    Torch updates weights one by one if the learning rate is a tensor and the step cannot be captured, or if weights
    are wrappers of other tensors.
    """
    is_open = group.get("foreach", False) is None and not (group.get("fused") or group.get("differentiable"))
    takes_rate = group.get("capturable") or not isinstance(group.get("lr"), torch.Tensor)
    has_lists = all(
        weight.device.type in _WITH_LISTS and not hasattr(weight, "__tensor_flatten__") for weight in group["params"]
    )
    return {"foreach": True} if is_open and takes_rate and has_lists else {}


def _make_stand_in(weight: torch.Tensor, is_fused: bool) -> torch.Tensor:
    """Return a weight on the meta device; a frozen weight gets no gradient, so that a step leaves it out as in a run.

    A fused kernel has the number of steps on the device of the weight, so the state of its copy counts in full.
    """
    empty = torch.empty_like(weight, device="meta")
    stand_in = _add_gradient(empty) if weight.requires_grad else nn.Parameter(empty, requires_grad=False)
    setattr(stand_in, _DEVICE, stand_in.device if is_fused else weight.device)
    return stand_in


def _move_state(value: Any) -> Any:
    """Return a meta tensor for a tensor of a state; a single number, such as the count of steps, keeps its value."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.clone() if value.dim() == 0 else torch.empty_like(value, device="meta")


def count_state_bytes(optimizer: Any) -> int:
    """Return the bytes of the tensors in the state of an optimizer, and of optimizers inside it, each once.

    State in the memory of the host for a weight on a GPU is left out, because the device of the weight does not hold
    it: the numbers of steps of Adam, four bytes for each weight.
    """
    distinct: dict[int, torch.Tensor] = {}
    parts = optimizer, *list_inner(optimizer)
    for weight, kept in chain.from_iterable(part.state.items() for part in parts):
        device = getattr(weight, _DEVICE, getattr(weight, "device", torch.device("cpu")))
        is_elsewhere = device.type not in ("cpu", "meta")
        tensors = tensors_in(kept, torch.is_tensor)
        distinct |= {id(tensor): tensor for tensor in tensors if not (is_elsewhere and tensor.device.type == "cpu")}
    return sum(map(count_stored_bytes, distinct.values()))


# Steps ----------------------------------------------------------------------------------------------------------------


def measure_step(optimizer: Any) -> int:
    """Step on meta tensors, and return the most bytes that the step takes.

    A fused kernel takes no meta tensors. It makes the same state as a step without it, and writes all in place: groups
    of weights with a fused kernel step separately, and their bytes do not count.
    """
    groups = optimizer.param_groups
    fused = [group for group in groups if group.get("fused")]
    if not fused:
        return _watch_step(optimizer)
    optimizer.param_groups = [{**group, "fused": False} for group in fused]
    _watch_step(optimizer)
    optimizer.param_groups = [group for group in groups if not group.get("fused")]
    update_bytes = _watch_step(optimizer)
    optimizer.param_groups = groups
    return update_bytes


def _watch_step(optimizer: Any) -> int:
    """Step, and return the most bytes of the tensors that the step makes.

    Torch wraps ``step`` into a function that runs the user's hooks. They are for real steps: ``step`` itself is called.
    """
    step = type(optimizer).step
    with _WatchedStep() as watched:
        getattr(step, "__wrapped__", step)(optimizer)
    return int(watched.peak_bytes)


class _WatchedStep(TorchDispatchMode):
    """Watches a step on meta tensors, which have no values: a value that the step reads, such as a norm, is 1.

    It refuses other tensors, so that a step through a reference to the user's weights does not change these. Single
    numbers, such as the count of steps, are copies with values.

    Attributes:
        peak_bytes: The most bytes of the tensors that the step makes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._live = LiveBytes()
        self.peak_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _READ_VALUE and args[0].is_meta:
            return 1.0
        for tensor in tensors_in((args, kwargs), torch.is_tensor):
            if not tensor.is_meta and (tensor.dim() or isinstance(tensor, nn.Parameter)):
                raise RuntimeError("it takes other tensors than those of its groups and its state")
            self._live.add(tensor, 0)  # made before the step; views of it take no further bytes
        result = func(*args, **(kwargs or {}))
        for tensor in tensors_in(result, torch.is_tensor):
            self._live.add(tensor)
        self.peak_bytes = max(self.peak_bytes, self._live.total)
        return result
