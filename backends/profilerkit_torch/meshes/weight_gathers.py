"""Which weights ZeRO 3 has whole when, by the rules and defaults of DeepSpeed.

A layer's own weights are gathered before the layer runs, forward and backward, by one all-gather, and given back after
it, unless they are needed again within so many elements of weights. Those of the next layers are gathered ahead. Small
weights stay whole. What is needed when is known from the first steps: the step here is one of the later ones.

Addresses: ``partitioned_param_coordinator.py``, ``partition_parameters.py`` and ``config.py`` in
``deepspeed/runtime/zero`` at github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from profilerkit.backend_kit.call_stack import tensors_in
from profilerkit.process.restoring import call_each, restored

from ..compat.modules import read_parameters
from ..model.modules import list_layers
from .gradient_bucket import require_one_dtype
from .recorder import RankRecorder

__all__ = ["RULES", "Gathers", "Plan", "Rules", "follow_layers", "make_plan"]


class Rules(NamedTuple):
    """DeepSpeed's settings, in elements of weights, with their defaults.

    Attributes:
        persistent: ``stage3_param_persistence_threshold``: weights of so many or fewer stay whole.
        ahead: ``stage3_prefetch_bucket_size``: so many are gathered ahead.
        live: ``stage3_max_live_parameters``: nothing is gathered ahead where more are whole.
        reuse: ``stage3_max_reuse_distance``: weights that are needed again before so many others are not given back.
    """

    persistent: int = 100_000
    ahead: int = 50_000_000
    live: int = 1_000_000_000
    reuse: int = 1_000_000_000


RULES = Rules()


class Weight:
    """A weight: the rank's part of it, and whether it is whole now.

    Args:
        path: The path of the first layer that has it.
        order: Its place among the weights of the model.
        parameter: The weight; its memory is that of the whole one, or none.
        ranks: Among how many ranks it is divided.
    """

    def __init__(self, path: str, order: int, parameter: nn.Parameter, ranks: int) -> None:
        self.path = path
        self.order = order
        self.parameter = parameter
        self.elements = parameter.numel()
        with torch.no_grad():
            self.partition = parameter.new_empty(-(-self.elements // ranks))
        self.is_whole = False
        #: The all-gather that is under way.
        self.coming: _Gathering | None = None
        #: The layers that need it now.
        self.users: set[nn.Module] = set()
        #: The last of its needs in this pass that was taken off the queue, by `_Need.step`; -1 before the first.
        self.sought_until = -1

    @property
    def is_small(self) -> bool:
        """Whether it stays whole throughout the step."""
        return self.elements <= RULES.persistent

    @property
    def is_away(self) -> bool:
        """Whether it is neither whole nor under way."""
        return not self.is_whole and self.coming is None

    def resize(self, elements: int) -> None:
        """Give the whole weight memory for so many elements."""
        self.parameter.untyped_storage().resize_(elements * self.parameter.itemsize)


class _Gathering(NamedTuple):
    """An all-gather of weights.

    Attributes:
        weights: The weights.
        flat: The tensor that several are gathered into; None for a single one, which is gathered into its own memory.
    """

    weights: Sequence[Weight]
    flat: torch.Tensor | None


class _Need(NamedTuple):
    """A weight that a layer will need, and how many layers have begun before that one, forward and backward."""

    weight: Weight
    step: int


@dataclass(frozen=True)
class Plan:
    """The weights of a model, and which layers need them when.

    Attributes:
        dtype: The dtype of all weights.
        by_parameter: The weights, by the ``id`` of their parameters.
        by_module: The weights that each layer has itself, without layers that have none.
        order: The layers in the order in which they begin in a pass, forward and backward.
    """

    dtype: torch.dtype
    by_parameter: Mapping[int, Weight]
    by_module: Mapping[nn.Module, Sequence[Weight]]
    order: Sequence[nn.Module]

    @property
    def trainable(self) -> Sequence[Weight]:
        """The weights that get gradients."""
        return [weight for weight in self.by_parameter.values() if weight.parameter.requires_grad]


def make_plan(model: nn.Module, ranks: int, rehearse: Callable[[], None]) -> Plan:
    """Divide the weights of a model among ranks, and note in a rehearsal of a pass which layers begin when."""
    dtype = require_one_dtype(list(model.parameters()))
    by_parameter: dict[int, Weight] = {}
    by_module: dict[nn.Module, Sequence[Weight]] = {}
    for path, module in list_layers(model):
        parameters = [parameter for parameter in read_parameters(module).values() if parameter is not None]
        for parameter in parameters:
            if id(parameter) not in by_parameter:
                by_parameter[id(parameter)] = Weight(path, len(by_parameter), parameter, ranks)
        if parameters:
            by_module[module] = [by_parameter[id(parameter)] for parameter in parameters]
    order: list[nn.Module] = []
    with follow_layers(by_module, order.append, lambda module: None):
        rehearse()
    return Plan(dtype, by_parameter, by_module, order)


@contextmanager
def follow_layers(
    modules: Iterable[nn.Module], begin: Callable[[nn.Module], None], end: Callable[[nn.Module], None]
) -> Iterator[None]:
    """Call functions with each module as it begins and ends, forward and backward, inside.

    One whose inputs need no gradients, as an embedding, has no end in the backward pass.
    """

    def begin_forward(module: nn.Module, arguments: Any) -> None:
        begin(module)

    def end_forward(module: nn.Module, arguments: Any, output: Any) -> None:
        end(module)
        if torch.is_grad_enabled():
            for tensor in tensors_in(output, torch.is_tensor):
                if tensor.requires_grad:
                    tensor.register_hook(partial(begin_backward, module))

    def begin_backward(module: nn.Module, gradient: torch.Tensor) -> None:
        begin(module)

    def end_backward(module: nn.Module, inputs: Any, outputs: Any) -> None:
        if any(gradient is not None for gradient in inputs):  # DeepSpeed sees the end by these alone
            end(module)

    stops: list[Callable[[], None]] = []
    with restored(partial(call_each, stops)):
        for module in modules:
            stops.append(module.register_forward_pre_hook(begin_forward).remove)
            stops.append(module.register_forward_hook(end_forward).remove)
            stops.append(module.register_full_backward_hook(end_backward).remove)
        yield


class Gathers:
    """Gathers the weights of layers before they run, and gives them back after."""

    def __init__(self, plan: Plan, group: Any, recorder: RankRecorder) -> None:
        self._plan = plan
        self._group = group
        self._ranks = dist.get_world_size(group)
        self._recorder = recorder
        self.begin_pass()

    def begin_pass(self) -> None:
        """Begin at the first layer, with weights that are not whole."""
        #: How many layers have begun, forward and backward.
        self._step = 0
        #: The elements of weights that are whole or under way, without the small ones.
        self._live = 0
        #: The weights that will be needed, the first first.
        self._queue = deque(
            _Need(weight, step)
            for step, module in enumerate(self._plan.order)
            for weight in sorted(self._plan.by_module[module], key=lambda weight: weight.order)
        )
        for weight in self._plan.by_parameter.values():
            weight.sought_until = -1

    @torch.no_grad()
    def begin(self, module: nn.Module) -> None:
        """Have the weights of a layer whole, and gather the next ones ahead."""
        weights = self._plan.by_module[module]
        self._gather([weight for weight in weights if weight.is_away])
        for weight in weights:
            weight.users.add(module)
            if weight.coming is not None:
                self._wait(weight.coming)
        self._look_ahead({weight for weight in weights if weight.sought_until < self._step})
        self._step += 1

    @torch.no_grad()
    def end(self, module: nn.Module) -> None:
        """Give the weights of a layer back that are not needed again soon."""
        needed_soon = self._find_needed_soon()
        for weight in self._plan.by_module[module]:
            weight.users.discard(module)
            stays = weight.is_small or weight.sought_until > self._step or weight in needed_soon
            if weight.is_whole and not weight.users and not stays:
                weight.resize(0)
                weight.is_whole = False
                self._live -= weight.elements

    def _find_needed_soon(self) -> set[Weight]:
        """Return the weights of the next layers, up to a number of elements."""
        needed: set[Weight] = set()
        elements = 0
        for module in self._plan.order[self._step :]:
            if elements >= RULES.reuse:
                break
            needed.update(self._plan.by_module[module])
            elements += sum(weight.elements for weight in self._plan.by_module[module])
        return needed

    def _look_ahead(self, needed: set[Weight]) -> None:
        """Take as many weights off the queue as are needed now, and gather the next ones."""
        taken: set[Weight] = set()
        while self._queue and len(taken) < len(needed):
            taken.add(self._pop())
        ahead: dict[Weight, None] = {}  # in the order of the queue, each once
        most = min(RULES.live - self._live, RULES.ahead)
        while self._queue and sum(weight.elements for weight in ahead) < most:
            weight = self._pop()
            if weight.is_away:
                ahead[weight] = None
        self._gather(list(ahead))

    def _pop(self) -> Weight:
        """Take the next weight off the queue, and note up to which need of it that was done."""
        weight, step = self._queue.popleft()
        weight.sought_until = max(weight.sought_until, step)
        return weight

    def _gather(self, weights: Sequence[Weight]) -> None:
        """Begin to gather weights, together: they count for the layer of the first."""
        if not weights:
            return
        part = sum(weight.partition.numel() for weight in weights)
        first = weights[0]
        with self._recorder.work_apart(first.path, "gathered weights"):
            if len(weights) == 1:
                first.resize(part * self._ranks)
                whole = first.parameter.data.as_strided((part * self._ranks,), (1,))
                dist.all_gather_into_tensor(whole, first.partition, group=self._group)
                gathering = _Gathering(weights, None)
            else:
                flat = first.partition.new_empty(part * self._ranks)
                dist.all_gather_into_tensor(flat, flat.narrow(0, 0, part), group=self._group)
                gathering = _Gathering(weights, flat)
        for weight in weights:
            weight.coming = gathering
            self._live += weight.elements

    def _wait(self, gathering: _Gathering) -> None:
        """Have weights that were gathered together each in a tensor of its own."""
        for weight in gathering.weights:
            weight.coming, weight.is_whole = None, True
            if gathering.flat is not None:
                with self._recorder.work_apart(weight.path, "gathered weights"):
                    weight.resize(weight.elements)
                    weight.parameter.data.view(-1).copy_(gathering.flat.narrow(0, 0, weight.elements))
