"""The gathering and freeing of weights in ZeRO 3, as in DeepSpeed.

A layer's own weights are gathered before the layer runs, forward and backward, by one all-gather, and freed after it,
unless they are needed again within so many elements of weights. The weights of the next layers are gathered ahead.
Small weights stay whole. Address: ``partitioned_param_coordinator.py`` in ``deepspeed/runtime/zero`` at
github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from .recorder import RankRecorder
from .weight_plan import Gathering, Plan, Weight

__all__ = ["AHEAD", "LIVE", "REUSE", "Gathers"]

# DeepSpeed's settings, in elements of weights, with their defaults.
#: ``stage3_prefetch_bucket_size``: so many are gathered ahead.
AHEAD = 50_000_000
#: ``stage3_max_live_parameters``: nothing is gathered ahead if more are whole.
LIVE = 1_000_000_000
#: ``stage3_max_reuse_distance``: weights that are needed again before so many others are not freed.
REUSE = 1_000_000_000


class _Need(NamedTuple):
    """A weight that a layer will need, and how many layers begin before this layer, forward and backward."""

    weight: Weight
    step: int


class _Queue:
    """The weights that layers will need in a pass, in the order of the layers."""

    def __init__(self, plan: Plan) -> None:
        self._needs = deque(
            _Need(weight, step)
            for step, module in enumerate(plan.order)
            for weight in sorted(plan.by_module[module], key=lambda weight: weight.order)
        )
        self._taken: dict[Weight, int] = {}

    def __bool__(self) -> bool:
        return bool(self._needs)

    def take(self) -> Weight:
        """Take the next weight off."""
        weight, step = self._needs.popleft()
        self._taken[weight] = step
        return weight

    def find_taken(self, weight: Weight) -> int:
        """Return the step of the last need of a weight that was taken off; -1 for none."""
        return self._taken.get(weight, -1)


class Gathers:
    """Gathers the weights of layers before the layers run, and frees the weights afterwards."""

    def __init__(self, plan: Plan, group: Any, recorder: RankRecorder) -> None:
        self._plan = plan
        self._group = group
        self._ranks = dist.get_world_size(group)
        self._recorder = recorder
        self.begin_pass()

    def begin_pass(self) -> None:
        """Begin at the first layer, with weights that are not whole."""
        self._step = 0  #: how many layers have begun, forward and backward
        self._live = 0  #: the elements of weights that are whole or under way, without small weights
        self._queue = _Queue(self._plan)

    @torch.no_grad()
    def begin(self, module: nn.Module) -> None:
        """Make the weights of a layer whole, and gather the next weights ahead."""
        weights = self._plan.by_module[module]
        self._gather([weight for weight in weights if weight.is_away])
        for weight in weights:
            weight.users.add(module)
            if weight.coming is not None:
                self._wait(weight.coming)
        self._look_ahead({weight for weight in weights if self._queue.find_taken(weight) < self._step})
        self._step += 1

    @torch.no_grad()
    def end(self, module: nn.Module) -> None:
        """Free the weights of a layer that are not needed again soon."""
        needed_soon = self._find_needed_soon()
        for weight in self._plan.by_module[module]:
            weight.users.discard(module)
            is_ahead = self._queue.find_taken(weight) > self._step
            stays = weight.is_small or is_ahead or weight in needed_soon
            if weight.is_whole and not weight.users and not stays:
                weight.resize(0)
                weight.is_whole = False
                self._live -= weight.elements

    def _find_needed_soon(self) -> set[Weight]:
        """Return the weights of the next layers, up to a number of elements."""
        needed: set[Weight] = set()
        elements = 0
        for module in self._plan.order[self._step :]:
            if elements >= REUSE:
                break
            needed.update(self._plan.by_module[module])
            elements += sum(weight.elements for weight in self._plan.by_module[module])
        return needed

    def _look_ahead(self, needed: set[Weight]) -> None:
        """Take as many weights off the queue as are needed now, and gather the next weights.

        For example, a layer needs ``a`` and ``b``, and the queue is ``a, b, a, c``. Both are taken off, then ``a``,
        which is whole already, and ``c``, which is gathered.
        """
        taken: set[Weight] = set()
        while self._queue and len(taken) < len(needed):
            taken.add(self._queue.take())
        ahead: dict[Weight, None] = {}  # in the order of the queue, each once
        most = min(LIVE - self._live, AHEAD)
        while self._queue and sum(weight.elements for weight in ahead) < most:
            weight = self._queue.take()
            if weight.is_away:
                ahead[weight] = None
        self._gather(list(ahead))

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
                gathering = Gathering(weights, None)
            else:
                flat = first.partition.new_empty(part * self._ranks)
                dist.all_gather_into_tensor(flat, flat.narrow(0, 0, part), group=self._group)
                gathering = Gathering(weights, flat)
        for weight in weights:
            weight.coming = gathering
            self._live += weight.elements

    def _wait(self, gathering: Gathering) -> None:
        """Copy weights that were gathered together to a tensor for each weight."""
        for weight in gathering.weights:
            weight.coming, weight.is_whole = None, True
            if gathering.flat is not None:
                with self._recorder.work_apart(weight.path, "gathered weights"):
                    weight.resize(weight.elements)
                    weight.parameter.data.view(-1).copy_(gathering.flat.narrow(0, 0, weight.elements))
