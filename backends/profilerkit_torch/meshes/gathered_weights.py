"""The weights of ZeRO 3, as in DeepSpeed: each rank has a part of each, and gathers those that a layer needs.

A layer's own weights are gathered before the layer runs, forward and backward, by one all-gather, and freed after it,
unless they are needed again within so many elements of weights. The weights of the next layers are gathered ahead.
Small weights stay whole. DeepSpeed learns the order of the layers in the first steps: the step here is a later step.
Addresses: ``partition_parameters.py``, ``partitioned_param_coordinator.py`` and ``config.py`` in
``deepspeed/runtime/zero`` at github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from profilerkit.arguments.structures import tensors_in
from profilerkit.process.restoring import call_each, restored

from ..compat.modules import read_parameters
from ..model.modules import list_layers
from .gradient_bucket import require_one_dtype
from .recorder import RankRecorder

__all__ = ["AHEAD", "LIVE", "REUSE", "GatheredWeights", "Weight"]

# DeepSpeed's settings, in elements of weights, with their defaults.
#: ``stage3_prefetch_bucket_size``: so many are gathered ahead.
AHEAD = 50_000_000
#: ``stage3_max_live_parameters``: nothing is gathered ahead if more are whole.
LIVE = 1_000_000_000
#: ``stage3_max_reuse_distance``: weights that are needed again before so many others are not freed.
REUSE = 1_000_000_000
#: ``stage3_param_persistence_threshold``: weights of so many elements or fewer stay whole.
_SMALL = 100_000


class Weight:
    """A weight: the rank's part of it, whether it stays whole because it is small, and whether it is whole now.

    Args:
        path: The path of the first layer that has it.
        order: Its place among the weights of the model.
        parameter: The weight; it has the memory of the whole weight, or none.
        ranks: The number of ranks that it is divided among.
    """

    def __init__(self, path: str, order: int, parameter: nn.Parameter, ranks: int) -> None:
        self.path = path
        self.order = order
        self.parameter = parameter
        self.elements = parameter.numel()
        with torch.no_grad():
            self.partition = parameter.new_empty(-(-self.elements // ranks))
        self.is_small: bool = self.elements <= _SMALL
        self.is_whole = False
        self.coming: _Gathering | None = None  #: the all-gather that is under way
        self.users: set[nn.Module] = set()  #: the layers that need it now

    @property
    def is_away(self) -> bool:
        """Whether it is neither whole nor under way."""
        return not self.is_whole and self.coming is None

    def resize(self, elements: int) -> None:
        """Give the whole weight memory for so many elements."""
        self.parameter.untyped_storage().resize_(elements * self.parameter.itemsize)


class _Gathering(NamedTuple):
    """An all-gather of weights."""

    weights: Sequence[Weight]
    #: The tensor that several are gathered into; None for one weight, which is gathered into its own memory.
    flat: torch.Tensor | None


class GatheredWeights:
    """The weights of a model, divided among the ranks of a group; all but the small ones are away at first.

    The order in which layers need them is noted in a rehearsal of a step.
    """

    _recorder: RankRecorder  #: set by `follow`

    def __init__(self, model: nn.Module, group: Any, rehearse: Callable[[], None]) -> None:
        self.dtype: torch.dtype = require_one_dtype(list(model.parameters()))
        self.by_parameter: dict[int, Weight] = {}  #: by the ``id`` of the parameter
        self._by_module: dict[nn.Module, list[Weight]] = {}  #: the weights that each layer has itself, if it has any
        self._group = group
        self._ranks = dist.get_world_size(group)
        for path, module in list_layers(model):
            for parameter in read_parameters(module).values():
                if parameter is not None:
                    new = Weight(path, len(self.by_parameter), parameter, self._ranks)
                    self._by_module.setdefault(module, []).append(self.by_parameter.setdefault(id(parameter), new))
        #: The layers in the order in which they begin in a pass, forward and backward.
        self._order: list[nn.Module] = []
        with _follow_layers(self._by_module, self._order.append, lambda module: None):
            rehearse()
        for weight in self.by_parameter.values():
            weight.parameter.grad = None
            weight.is_whole = weight.is_small
            if not weight.is_whole:
                weight.resize(0)

    @property
    def trainable(self) -> Sequence[Weight]:
        """The weights that get gradients."""
        return [weight for weight in self.by_parameter.values() if weight.parameter.requires_grad]

    @contextmanager
    def follow(self, recorder: RankRecorder) -> Iterator[None]:
        """Gather weights before the layers inside run, and free them afterwards."""
        self._recorder = recorder
        self.begin_pass()
        with _follow_layers(self._by_module, self._begin, self._end):
            yield

    def begin_pass(self) -> None:
        """Begin at the first layer, with weights that are not whole."""
        self._step = 0  #: how many layers have begun, forward and backward
        self._live = 0  #: the elements of weights that are whole or under way, without small weights
        #: The weights that layers will need, each with the step of this layer; and the last step of those taken off.
        self._needs = deque(
            (weight, step)
            for step, module in enumerate(self._order)
            for weight in sorted(self._by_module[module], key=lambda weight: weight.order)
        )
        self._taken: dict[Weight, int] = {}

    @torch.no_grad()
    def _begin(self, module: nn.Module) -> None:
        """Make the weights of a layer whole, and gather the next weights ahead."""
        weights = self._by_module[module]
        self._gather([weight for weight in weights if weight.is_away])
        for weight in weights:
            weight.users.add(module)
            if weight.coming is not None:
                self._wait(weight.coming)
        self._look_ahead({weight for weight in weights if self._taken.get(weight, -1) < self._step})
        self._step += 1

    @torch.no_grad()
    def _end(self, module: nn.Module) -> None:
        """Free the weights of a layer that are not needed again soon."""
        needed_soon = self._find_needed_soon()
        for weight in self._by_module[module]:
            weight.users.discard(module)
            is_ahead = self._taken.get(weight, -1) > self._step
            stays = weight.is_small or is_ahead or weight in needed_soon
            if weight.is_whole and not weight.users and not stays:
                weight.resize(0)
                weight.is_whole = False
                self._live -= weight.elements

    def _find_needed_soon(self) -> set[Weight]:
        """Return the weights of the next layers, up to a number of elements."""
        needed: set[Weight] = set()
        elements = 0
        for module in self._order[self._step :]:
            if elements >= REUSE:
                break
            needed.update(self._by_module[module])
            elements += sum(weight.elements for weight in self._by_module[module])
        return needed

    def _look_ahead(self, needed: set[Weight]) -> None:
        """Take as many weights off the queue of needs as are needed now, and gather the next weights.

        For example, a layer needs ``a`` and ``b``, and the queue is ``a, b, a, c``. Both are taken off, then ``a``,
        which is whole already, and ``c``, which is gathered.
        """
        taken: set[Weight] = set()
        while self._needs and len(taken) < len(needed):
            taken.add(self._take_next())
        ahead: dict[Weight, None] = {}  # in the order of the queue, each once
        most = min(LIVE - self._live, AHEAD)
        while self._needs and sum(weight.elements for weight in ahead) < most:
            weight = self._take_next()
            if weight.is_away:
                ahead[weight] = None
        self._gather(list(ahead))

    def _take_next(self) -> Weight:
        weight, step = self._needs.popleft()
        self._taken[weight] = step
        return weight

    def _gather(self, weights: Sequence[Weight]) -> None:
        """Begin to gather weights, together: they count for the layer of the first."""
        if not weights:
            return
        first, part = weights[0], sum(weight.partition.numel() for weight in weights)
        flat = None
        with self._recorder.work_apart(first.path, "gathered weights"):
            if len(weights) == 1:
                first.resize(part * self._ranks)
                whole = first.parameter.data.as_strided((part * self._ranks,), (1,))
                dist.all_gather_into_tensor(whole, first.partition, group=self._group)
            else:
                flat = first.partition.new_empty(part * self._ranks)
                dist.all_gather_into_tensor(flat, flat.narrow(0, 0, part), group=self._group)
        for weight in weights:
            weight.coming = _Gathering(weights, flat)
            self._live += weight.elements

    def _wait(self, gathering: _Gathering) -> None:
        """Copy weights that were gathered together to a tensor for each weight."""
        for weight in gathering.weights:
            weight.coming, weight.is_whole = None, True
            if gathering.flat is not None:
                with self._recorder.work_apart(weight.path, "gathered weights"):
                    weight.resize(weight.elements)
                    weight.parameter.data.view(-1).copy_(gathering.flat.narrow(0, 0, weight.elements))


@contextmanager
def _follow_layers(
    modules: Iterable[nn.Module], begin: Callable[[nn.Module], None], end: Callable[[nn.Module], None]
) -> Iterator[None]:
    """Call functions with each module as it begins and ends, forward and backward, inside.

    A module whose inputs need no gradients, such as an embedding, has no end in the backward pass.
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
        if any(gradient is not None for gradient in inputs):  # DeepSpeed notices the end only by these
            end(module)

    stops: list[Callable[[], None]] = []
    with restored(partial(call_each, stops)):
        for module in modules:
            stops.append(module.register_forward_pre_hook(begin_forward).remove)
            stops.append(module.register_forward_hook(end_forward).remove)
            stops.append(module.register_full_backward_hook(end_backward).remove)
        yield
