"""The bytes of a torch optimizer: of its present state, or of the state that a step of a copy makes on meta tensors."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.arguments.structures import map_leaves, tensors_in
from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.count_text import format_count
from profilerkit.error_text import error_line
from profilerkit.trace.records import WeightRecord

from ..compat.modes import TorchDispatchMode
from ..compat.operators import find_operator
from ..model.rank_shares import is_in_group
from ..model.storages import count_stored_bytes, storage_key
from ..trace.live_bytes import LiveBytes

__all__ = ["OptimizerCopy", "count_state_bytes", "list_inner", "optimizer_bytes"]


def optimizer_bytes(optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
    """Return the bytes of an optimizer's state, and the bytes that an update takes besides; a reason if unknown.

    The state of an optimizer that has stepped is counted; state that it lacks, of weights that had no gradient yet, is
    missing. For an optimizer that has not stepped, or a class with its defaults, a copy steps on meta tensors. So any
    class works, also classes of the user. The reason is a text because it is shown beside the numbers that are known
    (`ReadsOptimizers`).
    """
    kind = optimizer if isinstance(optimizer, type) else type(optimizer)
    name = kind.__name__
    if not issubclass(kind, torch.optim.Optimizer):
        return f"the state of {name}, which is no torch.optim.Optimizer; give one, or the name of one"
    if optimizer is kind:
        return _count_with_copy(name, None, partial(OptimizerCopy.make, kind, weights))
    optimizer = _find_wrapped(optimizer)
    strangers = _count_strangers(optimizer, weights)
    if strangers:
        return (
            f"the state of {name}, which trains {format_count(strangers, 'weight')} of sizes that the model lacks: "
            "give the optimizer of this model alone, or its class"
        )
    present = count_state_bytes(optimizer) if optimizer.state else None
    updated = None if is_in_group() else Counter(weight.count for weight in weights if weight.trainable)
    return _count_with_copy(name, present, partial(OptimizerCopy.copy, optimizer, updated))


def _count_with_copy(name: str, present: int | None, make_copy: Callable[[], OptimizerCopy]) -> OptimizerBytes | str:
    """Return the bytes of an optimizer that has stepped and has the ``present`` bytes; None if it has not stepped."""
    try:
        copy = make_copy()
        copy.step()  # makes the state; an update is a step with a state
        update_bytes = copy.step()
    except MemoryError:
        raise
    except Exception as error:  # whatever the optimizer raises
        reason = f"did not step on meta tensors ({type(error).__name__}: {error_line(error)})"
        if present is None:
            return f"the state of {name}, which {reason}; give an optimizer that has stepped, or the name of one"
        return OptimizerBytes(present, missing=f"what an update of {name} takes: a copy of it {reason}")
    made = copy.count_state_bytes()
    if present is None or made <= present:
        return OptimizerBytes(made if present is None else present, update_bytes)
    missing = f"{made - present:,} bytes that {name} makes for weights with which it has not stepped yet"
    return OptimizerBytes(present, update_bytes, missing)


def _find_wrapped(optimizer: Any) -> Any:
    """Return the optimizer whose groups and state a wrapper uses, such as accelerate's; else the optimizer itself."""
    for inner in list_inner(optimizer):
        parts = (getattr(optimizer, name, getattr(inner, name)) for name in ("param_groups", "state"))
        if list(map(id, parts)) == [id(inner.param_groups), id(inner.state)]:
            return _find_wrapped(inner)
    return optimizer


def _count_strangers(optimizer: torch.optim.Optimizer, weights: Iterable[WeightRecord]) -> int:
    """Return how many weights an optimizer trains that the model cannot have, by their numbers of elements.

    In a group of processes it may train parts of the model's weights: nothing is known then.
    """
    if is_in_group():
        return 0
    trained = (weight for group in optimizer.param_groups for weight in group["params"] if weight.requires_grad)
    sizes = Counter(weight.numel() for weight in trained if not is_unsized(weight))
    return (sizes - Counter(weight.count for weight in weights)).total()


# Copies on meta tensors -----------------------------------------------------------------------------------------------


#: Reads the value of a tensor with one element, as ``tensor.item()`` does.
_READ_VALUE = find_operator("aten._local_scalar_dense.default")
#: The devices on which torch updates the weights of a group all at once by default.
_WITH_LISTS = ("cuda", "mtia", "xpu")
_CPU = torch.device("cpu")


class OptimizerCopy:
    """An optimizer over weights on the meta device, with groups and a state of its own."""

    def __init__(self, optimizer: Any, devices: Mapping[int, torch.device] = MappingProxyType({})) -> None:
        self._optimizer = optimizer
        #: By the ``id`` of a weight of the copy, the device where its state would be, unless it is the weight's own.
        self._devices = devices

    @classmethod
    def make(cls, kind: type[Any], weights: Iterable[WeightRecord]) -> OptimizerCopy:
        """Return an optimizer of a class, with its defaults, for the trainable weights."""
        parameters = []
        for weight in weights:
            if weight.trainable:
                is_packed = math.prod(weight.shape) != weight.count
                shape = (weight.count,) if is_packed else weight.shape
                empty = torch.empty(shape, dtype=getattr(torch, weight.dtype), device="meta")
                parameters.append(_make_parameter(empty, is_trained=True))
        return cls(kind(parameters))

    @classmethod
    def copy(cls, optimizer: torch.optim.Optimizer, updated: Counter[int] | None = None) -> OptimizerCopy:
        """Return a copy with the same settings, without calling the constructor of its class.

        ``updated`` has how many weights of each number of elements get a gradient: others have none in the copy, of
        which it does not matter which of equal size they are. All trainable ones get one unless it is given.

        All but groups, weights and state is shared. A fused kernel has the number of steps on the device of the weight,
        so the state of its copy counts in full.
        """
        if list_inner(optimizer) or isinstance(getattr(type(optimizer), "param_groups", None), property):
            raise TypeError("it steps by another optimizer, which the step of a copy would change")
        made = object.__new__(type(optimizer))
        made.__dict__.update(optimizer.__dict__)
        stand_ins: dict[int, nn.Parameter] = {}
        devices: dict[int, torch.device] = {}
        for group in optimizer.param_groups:
            for weight in group["params"]:
                empty = torch.empty_like(weight, device="meta")
                is_trained = weight.requires_grad
                if updated is not None and is_trained:
                    is_trained = updated[weight.numel()] > 0
                    updated[weight.numel()] -= 1
                stand_in = stand_ins[id(weight)] = _make_parameter(empty, is_trained=is_trained)
                if not group.get("fused"):
                    devices[id(stand_in)] = weight.device
        made.param_groups = [
            {**group, **_choose_lists(group), "params": [stand_ins[id(weight)] for weight in group["params"]]}
            for group in optimizer.param_groups
        ]
        made.state = defaultdict(dict)
        for weight, kept in optimizer.state.items():
            made.state[stand_ins.get(id(weight), weight)] = map_leaves(dict(kept), _move_state)
        return cls(made, devices)

    def step(self) -> int:
        """Step without values, and return the most bytes of the tensors that the step makes.

        A fused kernel takes no meta tensors. It makes the same state as a step without it, and writes all in place:
        groups of weights with a fused kernel step separately, and their bytes do not count.
        """
        groups = self._optimizer.param_groups
        fused = [{**group, "fused": False} for group in groups if group.get("fused")]
        if not fused:
            return self._step_groups(groups)
        try:
            self._step_groups(fused)
            return self._step_groups([group for group in groups if not group.get("fused")])
        finally:
            self._optimizer.param_groups = groups

    def _step_groups(self, groups: list[dict[str, Any]]) -> int:
        """Step with these groups alone, and return the most bytes of the tensors that the step makes.

        Torch wraps ``step`` into a function that runs the user's hooks. They are for real steps: ``step`` itself is
        called.
        """
        self._optimizer.param_groups = groups
        step = type(self._optimizer).step
        with _WatchedStep() as watched:
            getattr(step, "__wrapped__", step)(self._optimizer)
        return int(watched.peak_bytes)

    def count_state_bytes(self) -> int:
        """Return the bytes of its state, as for the optimizer itself."""
        return count_state_bytes(self._optimizer, self._devices)


def count_state_bytes(optimizer: Any, devices: Mapping[int, torch.device] = MappingProxyType({})) -> int:
    """Return the bytes of the tensors in the state of an optimizer, and of optimizers inside it, each once.

    State in the memory of the host for a weight on a GPU is left out, because the device of the weight does not hold
    it: the numbers of steps of Adam, four bytes for each weight. ``devices`` has by the ``id`` of a weight the device
    that counts in place of the weight's own.
    """
    distinct: dict[int, torch.Tensor] = {}
    parts = optimizer, *list_inner(optimizer)
    for weight, kept in chain.from_iterable(part.state.items() for part in parts):
        device = devices.get(id(weight), getattr(weight, "device", _CPU))
        is_elsewhere = device.type not in ("cpu", "meta")
        tensors = tensors_in(kept, torch.is_tensor)
        distinct |= {id(tensor): tensor for tensor in tensors if not (is_elsewhere and tensor.device.type == "cpu")}
    return sum(map(count_stored_bytes, distinct.values()))


def list_inner(optimizer: Any) -> list[torch.optim.Optimizer]:
    """Return the optimizers in attributes of an optimizer."""
    return [value for value in vars(optimizer).values() if isinstance(value, torch.optim.Optimizer)]


def _make_parameter(tensor: torch.Tensor, is_trained: bool) -> nn.Parameter:
    """Return a parameter; a frozen one gets no gradient, so that a step leaves it out as in a run."""
    parameter = nn.Parameter(tensor, requires_grad=is_trained)
    if is_trained:
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


def _move_state(value: Any) -> Any:
    """Return a meta tensor for a tensor of a state; a single number, such as the count of steps, keeps its value."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.clone() if value.dim() == 0 else torch.empty_like(value, device="meta")


class _WatchedStep(TorchDispatchMode):
    """Watches a step on meta tensors, which have no values: a value that the step reads, such as a norm, is 1.

    It refuses tensors that it did not make, so that a step through a reference to the user's weights does not change
    these. Single numbers, such as the count of steps, are copies with values.
    """

    def __init__(self) -> None:
        super().__init__()
        self._live = LiveBytes()
        self.peak_bytes = 0  #: the most bytes of the tensors that the step makes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _READ_VALUE and args[0].is_meta:
            return 1.0
        for tensor in tensors_in((args, kwargs), torch.is_tensor):
            is_own = tensor.is_meta or storage_key(tensor) in self._live.by_storage or tensor.dim() == 0
            if not is_own or (isinstance(tensor, nn.Parameter) and not tensor.is_meta):
                raise RuntimeError("it takes other tensors than those of its groups and its state")
            self._live.add(tensor, 0)  # made before the step; views of it take no further bytes
        result = func(*args, **(kwargs or {}))
        for tensor in tensors_in(result, torch.is_tensor):
            self._live.add(tensor)
        self.peak_bytes = max(self.peak_bytes, self._live.total)
        return result
