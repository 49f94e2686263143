"""ZeRO 3 by the rules and defaults of DeepSpeed: each rank keeps a part of each weight, and gathers those it needs.

A layer's own weights are gathered before the layer runs, forward and backward, by one all-gather, and given back after
it, unless they are needed again within so many elements of weights. Those of the next layers are gathered ahead.
Small weights stay whole, and are gathered again after each update. Gradients wait in a bucket of fixed size, which
stays from step to step; it is scattered when the next does not fit.

What is needed when is known from the first steps, so that the step here is one of the later ones.
Addresses: ``partitioned_param_coordinator.py``, ``partition_parameters.py``, ``stage3.py`` and ``config.py`` in
``deepspeed/runtime/zero`` at github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from profilerkit.backend_kit.call_stack import tensors_in
from profilerkit.process.restoring import call_each, restored
from profilerkit_predict.meshes.records import Message, OptimizerShare, Purpose

from ..compat.modules import read_parameters
from ..model.modules import list_layers
from ..training.differentiation import follow_gradients
from .gradient_bucket import MASTER_BYTES, GradientBucket, describe_partition, require_one_dtype
from .recorder import RankRecorder
from .shares import count_bytes, find_share
from .step_scheme import StepScheme

__all__ = ["RULES", "PartitionedParameters", "Rules"]

#: ``sub_group_size``: the elements that the optimizer updates together.
_UPDATED_ELEMENTS = 1_000_000_000


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


class _Weight:
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

    weights: Sequence[_Weight]
    flat: torch.Tensor | None


class _Need(NamedTuple):
    """A weight that a layer will need, and how many layers have begun before that one, forward and backward."""

    weight: _Weight
    step: int


@dataclass(frozen=True)
class _Plan:
    """The weights of a model, and which layers need them when.

    Attributes:
        dtype: The dtype of all weights.
        by_parameter: The weights, by the ``id`` of their parameters.
        by_module: The weights that each layer has itself, without layers that have none.
        order: The layers in the order in which they begin in a pass, forward and backward.
    """

    dtype: torch.dtype
    by_parameter: Mapping[int, _Weight]
    by_module: Mapping[nn.Module, Sequence[_Weight]]
    order: Sequence[nn.Module]

    @property
    def trainable(self) -> Sequence[_Weight]:
        """The weights that get gradients."""
        return [weight for weight in self.by_parameter.values() if weight.parameter.requires_grad]


def _make_plan(model: nn.Module, ranks: int, rehearse: Callable[[], None]) -> _Plan:
    """Divide the weights of a model among ranks, and note in a rehearsal of a pass which layers begin when."""
    dtype = require_one_dtype(list(model.parameters()))
    by_parameter: dict[int, _Weight] = {}
    by_module: dict[nn.Module, Sequence[_Weight]] = {}
    for path, module in list_layers(model):
        parameters = [parameter for parameter in read_parameters(module).values() if parameter is not None]
        for parameter in parameters:
            if id(parameter) not in by_parameter:
                by_parameter[id(parameter)] = _Weight(path, len(by_parameter), parameter, ranks)
        if parameters:
            by_module[module] = [by_parameter[id(parameter)] for parameter in parameters]
    order: list[nn.Module] = []
    with _follow_layers(by_module, order.append, lambda module: None):
        rehearse()
    return _Plan(dtype, by_parameter, by_module, order)


@contextmanager
def _follow_layers(
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


class PartitionedParameters(StepScheme):
    """Gathers weights when they are needed, and scatters their gradients, both in each pass."""

    #: Which layers need which weights when; there once `prepare` was called, as a step runs only then.
    _plan: _Plan
    #: What gathers weights; there inside `in_step`, where `synchronize` is called.
    _gathers: _Gathers

    def __init__(self, group: Any) -> None:
        self._group = group

    def prepare(self, model: nn.Module, rehearse: Callable[[], None]) -> None:
        """Note in a rehearsal which layers need their weights when, and give all weights away but the small ones."""
        self._plan = _make_plan(model, dist.get_world_size(self._group), rehearse)
        for weight in self._plan.by_parameter.values():
            weight.parameter.grad = None
            weight.is_whole = weight.is_small
            if not weight.is_whole:
                weight.resize(0)
        self._describe()

    def synchronize(self, model: nn.Module, is_last: bool) -> None:
        """Have a pass begin at the first layer."""
        self._gathers.begin_pass()

    def _describe(self) -> None:
        """Say what the optimizer updates: the parts themselves where these are in float32, else copies of them."""
        parts = [weight.partition for weight in self._plan.trainable]
        partition = describe_partition(sum(part.numel() for part in parts))
        self.optimizer_share = OptimizerShare(
            (partition,),
            copy_bytes=0 if self._plan.dtype == torch.float32 else partition.bytes,
            update_bytes=min(partition.bytes, _UPDATED_ELEMENTS * MASTER_BYTES),
        )
        self.gradient_bytes = count_bytes(parts)

    def find_share(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the rank's part of a weight; buffers are whole."""
        weight = self._plan.by_parameter.get(id(tensor))
        return find_share(tensor) if weight is None else weight.partition

    @contextmanager
    def in_step(self, recorder: RankRecorder) -> Iterator[None]:
        """Gather weights and scatter gradients inside; gather the small weights after the update."""
        plan = self._plan
        for weight in plan.by_parameter.values():
            recorder.hold(weight.parameter, Purpose("gathered weights", weight.path))
        self._gathers = gathers = _Gathers(plan, self._group, recorder)
        bucket = _ScatteredBucket(plan, self._group, recorder)
        with (
            _follow_layers(plan.by_module, gathers.begin, gathers.end),
            follow_gradients((weight.parameter for weight in plan.trainable), bucket.take),
        ):
            yield
        ranks = tuple(dist.get_process_group_ranks(self._group))
        for weight in plan.by_parameter.values():
            if weight.is_small:
                gathered = count_bytes([weight.partition]) * len(ranks)
                recorder.note_update(Message("all-gather", ranks, gathered), weight.path)


class _Gathers:
    """Gathers the weights of layers before they run, and gives them back after."""

    def __init__(self, plan: _Plan, group: Any, recorder: RankRecorder) -> None:
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

    def _find_needed_soon(self) -> set[_Weight]:
        """Return the weights of the next layers, up to a number of elements."""
        needed: set[_Weight] = set()
        elements = 0
        for module in self._plan.order[self._step :]:
            if elements >= RULES.reuse:
                break
            needed.update(self._plan.by_module[module])
            elements += sum(weight.elements for weight in self._plan.by_module[module])
        return needed

    def _look_ahead(self, needed: set[_Weight]) -> None:
        """Take as many weights off the queue as are needed now, and gather the next ones."""
        taken: set[_Weight] = set()
        while self._queue and len(taken) < len(needed):
            taken.add(self._pop())
        ahead: dict[_Weight, None] = {}  # in the order of the queue, each once
        most = min(RULES.live - self._live, RULES.ahead)
        while self._queue and sum(weight.elements for weight in ahead) < most:
            weight = self._pop()
            if weight.is_away:
                ahead[weight] = None
        self._gather(list(ahead))

    def _pop(self) -> _Weight:
        """Take the next weight off the queue, and note up to which need of it that was done."""
        weight, step = self._queue.popleft()
        weight.sought_until = max(weight.sought_until, step)
        return weight

    def _gather(self, weights: Sequence[_Weight]) -> None:
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


class _ScatteredBucket(GradientBucket):
    """Scatters gradients; what a rank keeps of them has a place of its own, which stays as the bucket does."""

    STAYS: ClassVar[bool] = True

    def __init__(self, plan: _Plan, group: Any, recorder: RankRecorder) -> None:
        super().__init__(plan.dtype, group, recorder)
        #: Whether a pass before this one has left gradients.
        self._has_sums = False
        #: The elements of a rank's part of each weight, by the ``id`` of the parameter.
        self._parts = {id(weight.parameter): weight.partition.numel() for weight in plan.trainable}
        self._ranks = dist.get_world_size(group)
        with recorder.work_apart("", "gradients"):
            self._gradients = torch.empty(sum(self._parts.values()), dtype=plan.dtype)

    def exchange(self, source: torch.Tensor) -> None:
        """Scatter the gradients that wait: several, and one that must be padded, are copied into one tensor first."""
        part = sum(self._parts[id(parameter)] for parameter in self.waiting)
        elements = part * self._ranks
        is_alone = len(self.waiting) == 1 and self.waiting[0].numel() == elements
        with self.recorder.work_apart("", "communication"):
            flat = source.narrow(0, 0, elements) if is_alone else torch.empty(elements, dtype=self.dtype)
            dist.reduce_scatter_tensor(flat.narrow(0, 0, part), flat, group=self.group)
        if self._has_sums:
            with self.recorder.work_apart("", "gradients"):
                self._gradients.narrow(0, 0, part).add_(flat.narrow(0, 0, part))

    def keep(self) -> None:
        """Do nothing: what is kept has its place from the beginning."""

    def add_up(self) -> None:
        """Note that there are gradients now, to which those of the next pass are added."""
        self._has_sums = True
