"""ZeRO 1 and 2 by the rules and defaults of DeepSpeed: all ranks have all weights, and each updates its part of them.

The trained weights lie one after the other in a flat tensor. Each rank has an equal part of it, its partition, with a
copy in float32 and the optimizer's state for this copy. The gradients in the bucket are reduced by all-reduces. A rank
keeps the whole gradients of weights that have elements in its partition. After the update the partitions are gathered.

- Stage 1 adds up the gradients of all passes in the weights, and reduces them once, after the last backward pass.
- Stage 2 reduces them during each backward pass, and adds the gradients that the rank keeps to their sums so far.

No exchange overlaps with computation: ``overlap_comm`` is off by default in both stages.
Addresses: ``deepspeed/runtime/zero/stage_1_and_2.py`` and ``config.py`` at github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from profilerkit_predict.meshes.records import Message, OptimizerShare

from ..training.differentiation import follow_gradients
from .gradient_bucket import GradientBucket, describe_partition, require_one_dtype
from .rank_memory import count_bytes
from .recorder import RankRecorder
from .step_scheme import StepScheme

__all__ = ["PartitionedUpdate"]

#: Each partition has a multiple of so many elements.
_ALIGNMENT = 2


class PartitionedUpdate(StepScheme):
    """Reduces gradients in a bucket, keeps the rank's partition of them, and gathers the updated partitions."""

    _partitions: _Partitions  #: the division of the weights; set by `prepare`, which is called before a step

    def __init__(self, group: Any, stage: int) -> None:
        self._group = group
        self._stage = stage
        self._is_last_pass = True

    def prepare(self, model: nn.Module, rehearse: Callable[[], None]) -> None:
        """Divide the trained weights, and set the share that the optimizer of this rank updates."""
        self._partitions = _Partitions(model, self._group)
        partition = describe_partition(self._partitions.size)
        self.optimizer_share = OptimizerShare((partition,), copy_bytes=partition.bytes, update_bytes=partition.bytes)
        self.gradient_bytes = count_bytes(self._partitions.local)

    def synchronize(self, model: nn.Module, is_last: bool) -> None:
        """Note whether the next pass is the last. The model itself needs no setting, unlike with FSDP."""
        self._is_last_pass = is_last

    @contextmanager
    def in_step(self, recorder: RankRecorder) -> Iterator[None]:
        """Reduce the gradients of the backward passes inside, and gather the weights after them."""
        partitions = self._partitions
        bucket = _ReducedBucket(partitions, self._group, recorder)
        take = bucket.take if self._stage == 2 else partial(self._take_at_end, bucket)
        with follow_gradients(partitions.parameters, take):
            yield
        ranks = tuple(dist.get_process_group_ranks(self._group))
        gathered_bytes = partitions.size * len(ranks) * partitions.dtype.itemsize
        recorder.exchanges.note_update(Message("all-gather", ranks, gathered_bytes), "")

    def _take_at_end(self, bucket: _ReducedBucket, parameter: torch.Tensor) -> None:
        """Leave a new gradient in its weight until the last backward pass is over: all are reduced then."""
        bucket.open()  # DeepSpeed makes it with the first gradient of any pass, and uses it in the last
        if self._is_last_pass:
            bucket.exchange_at_end()


class _Slice(NamedTuple):
    """Consecutive elements of gradients in one rank's partition."""

    rank: int
    elements: int


class _Partitions:
    """The trained weights, one after the other, and the division of their elements among ranks."""

    def __init__(self, model: nn.Module, group: Any) -> None:
        #: The weights, in this order.
        self.parameters: list[nn.Parameter] = [weight for weight in model.parameters() if weight.requires_grad]
        self.dtype: torch.dtype = require_one_dtype(self.parameters)
        ends = list(accumulate(parameter.numel() for parameter in self.parameters))
        aligned = _ALIGNMENT * dist.get_world_size(group)
        #: The elements of each partition: the last is padded.
        self.size: int = -(-ends[-1] // aligned) * _ALIGNMENT
        self._ends = {id(parameter): end for parameter, end in zip(self.parameters, ends, strict=True)}
        rank = dist.get_rank(group)
        #: The weights that have elements in this rank's partition; their gradients are kept whole.
        self.local: list[nn.Parameter] = [
            parameter for parameter in self.parameters if any(part.rank == rank for part in self.list_slices(parameter))
        ]

    def list_slices(self, parameter: torch.Tensor) -> Iterator[_Slice]:
        """Yield the elements of a weight in each partition."""
        end = self._ends[id(parameter)]
        position = end - parameter.numel()
        while position < end:
            rank = position // self.size
            until = min(end, (rank + 1) * self.size)
            yield _Slice(rank, until - position)
            position = until


class _ReducedBucket(GradientBucket):
    """Reduces gradients over all ranks, and keeps the gradients of the rank's own partition."""

    def __init__(self, partitions: _Partitions, group: Any, recorder: RankRecorder) -> None:
        super().__init__(partitions.parameters, partitions.dtype, group, recorder)
        self._partitions = partitions
        self._local_ids = {id(parameter) for parameter in partitions.local}
        #: The gradients that are kept of this pass; None before the first of them was reduced.
        self._gradients: torch.Tensor | None = None
        #: Their sums over all earlier passes; None before the first pass is over.
        self._sums: torch.Tensor | None = None

    def exchange(self, source: torch.Tensor) -> None:
        """Reduce the gradients that wait: one slice inside the bucket, several in a tensor that they are copied to.

        The begin of a slice in the bucket makes no difference to sizes: a view of as many elements stands for it.
        """
        slices = [part for parameter in self.waiting for part in self._partitions.list_slices(parameter)]
        for together in _group_slices(slices, self.ELEMENTS):
            elements = sum(together)
            with self.recorder.work_apart("", "communication", overlaps=False):
                is_alone = len(together) == 1
                reduced = source.narrow(0, 0, elements) if is_alone else torch.empty(elements, dtype=self.dtype)
                dist.all_reduce(reduced, group=self.group)

    def keep(self) -> None:
        """Allocate the gradients of the rank's own partition when the first of them was reduced."""
        if self._gradients is None and any(id(parameter) in self._local_ids for parameter in self.waiting):
            with self.recorder.work_apart("", "gradients"):
                elements = sum(parameter.numel() for parameter in self._partitions.local)
                self._gradients = torch.empty(elements, dtype=self.dtype)

    def add_up(self) -> None:
        """Add the gradients of this pass to the sums over earlier passes."""
        if self._sums is None:
            self._sums = self._gradients
        elif self._gradients is not None:
            with self.recorder.work_apart("", "gradients"):
                self._sums.add_(self._gradients)
        self._gradients = None


def _group_slices(slices: Iterable[_Slice], most: int) -> Iterator[list[int]]:
    """Yield the elements of the slices that are reduced together; neighbors in one partition are one slice.

    An all-reduce takes slices until it has more than ``most`` elements. The slice that exceeds them is included, as in
    DeepSpeed, which compares the sum after it has added a slice.

    >>> list(_group_slices([_Slice(0, 2), _Slice(0, 4), _Slice(1, 6), _Slice(2, 6)], most=10))
    [[6, 6], [6]]
    """
    together: list[int] = []
    for _, neighbors in groupby(slices, key=lambda part: part.rank):
        together.append(sum(part.elements for part in neighbors))
        if sum(together) > most:
            yield together
            together = []
    if together:
        yield together
