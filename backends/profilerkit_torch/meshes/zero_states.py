"""ZeRO 1 and 2 by the rules and defaults of DeepSpeed: each rank updates its part of the weights, which all have whole.

The trained weights lie one after the other in a flat tensor, of which each rank has an equal part: a partition, with
the optimizer's state for a copy of it in float32. Gradients are gathered in a bucket of fixed size, which is made with
the first gradient and reduced, by an all-reduce, whenever the next does not fit. A rank keeps the gradients of weights
that have elements in its partition, whole. After the update the partitions are gathered.

Stage 2 reduces while it goes back, in each pass, and adds what a rank keeps to that of the passes before. Stage 1 adds
up all gradients in the weights, and reduces them when the last backward pass is over. Nothing runs beside that: neither
stage has ``overlap_comm`` unless it is asked for.
Addresses: ``deepspeed/runtime/zero/stage_1_and_2.py`` and ``config.py`` at github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
import torch.distributed as dist

from profilerkit_predict.meshes.exchanges import Message
from profilerkit_predict.meshes.records import OptimizerShare

from ..compat.autograd import call_after_backward
from ..training.differentiation import follow_gradients
from .recorder import RankRecorder
from .shares import count_bytes
from .step_scheme import StepScheme
from .zero import GradientBucket, describe_partition, require_one_dtype

__all__ = ["PartitionedStates"]

#: Each partition has a multiple of so many elements.
_ALIGNMENT = 2


class _Slice(NamedTuple):
    """Consecutive elements of gradients that are of one rank's partition."""

    rank: int
    elements: int


class _Partitions:
    """How the elements of weights, one after the other, are dealt out to ranks."""

    def __init__(self, parameters: Sequence[torch.Tensor], ranks: int) -> None:
        aligned = _ALIGNMENT * ranks
        elements = sum(parameter.numel() for parameter in parameters)
        #: The elements of each partition: the last is padded.
        self.size = -(-elements // aligned) * _ALIGNMENT
        self._begins: dict[int, int] = {}
        begin = 0
        for parameter in parameters:
            self._begins[id(parameter)] = begin
            begin += parameter.numel()

    def list_slices(self, parameter: torch.Tensor) -> list[_Slice]:
        """Return which elements of a weight are in which partition."""
        position = self._begins[id(parameter)]
        end = position + parameter.numel()
        slices = []
        while position < end:
            rank = position // self.size
            until = min(end, (rank + 1) * self.size)
            slices.append(_Slice(rank, until - position))
            position = until
        return slices

    def has_part(self, rank: int, parameter: torch.Tensor) -> bool:
        """Return whether elements of a weight are in a rank's partition."""
        return any(part.rank == rank for part in self.list_slices(parameter))


class PartitionedStates(StepScheme):
    """Reduces gradients in a bucket, keeps those of the rank's own partition, and gathers what each rank updates.

    Args:
        group: The ranks.
        is_late: Whether gradients are reduced when the last pass is over, as in stage 1.
    """

    #: A bucket has gradients of several blocks.
    IS_BY_BLOCK: ClassVar[bool] = False

    def __init__(self, group: Any, is_late: bool) -> None:
        self._group = group
        self._is_late = is_late
        self._is_last = True

    def synchronize(self, model: torch.nn.Module, is_last: bool) -> None:
        """Note whether a pass is the last one."""
        self._is_last = is_last

    def prepare(self, model: torch.nn.Module, rehearse: Any) -> None:
        """Deal out the trained weights."""
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._dtype = require_one_dtype(self._parameters)
        rank, ranks = dist.get_rank(self._group), dist.get_world_size(self._group)
        self._partitions = partitions = _Partitions(self._parameters, ranks)
        self._local = [parameter for parameter in self._parameters if partitions.has_part(rank, parameter)]
        partition = describe_partition(partitions.size)
        self.optimizer_share = OptimizerShare((partition,), copy_bytes=partition.bytes, update_bytes=partition.bytes)
        self.gradient_bytes = count_bytes(self._local)

    @contextmanager
    def in_step(self, recorder: RankRecorder) -> Iterator[None]:
        """Reduce the gradients of the backward pass inside, and gather the weights after it."""
        bucket = _ReducedBucket(self._partitions, self._local, self._dtype, self._group, recorder)

        def take(parameter: torch.Tensor) -> None:
            if not self._is_late:
                bucket.take(parameter)
            elif self._is_last:
                bucket.take_later(self._parameters)
            else:
                bucket.open()

        with follow_gradients(self._parameters, take):
            yield
        ranks = tuple(dist.get_process_group_ranks(self._group))
        gathered = self._partitions.size * len(ranks) * self._dtype.itemsize
        recorder.exchanges.add(Message("all-gather", ranks, gathered), "", "update")


class _ReducedBucket(GradientBucket):
    """Reduces gradients over all ranks, and keeps those of the rank's own partition."""

    def __init__(
        self,
        partitions: _Partitions,
        local: Sequence[torch.Tensor],
        dtype: torch.dtype,
        group: Any,
        recorder: RankRecorder,
    ) -> None:
        super().__init__(dtype, group, recorder)
        self._partitions = partitions
        self._local = {id(parameter) for parameter in local}
        self._local_elements = sum(parameter.numel() for parameter in local)
        #: The gradients that are kept: those of this pass, and those of all passes before it.
        self._gradients: torch.Tensor | None = None
        self._sums: torch.Tensor | None = None

    def take_later(self, parameters: Sequence[torch.Tensor]) -> None:
        """Make the bucket, and take the gradients of all these weights when the backward pass ends."""
        self.open()
        if not self._has_begun:
            call_after_backward(partial(self._take_all, parameters))
            self._has_begun = True

    def _take_all(self, parameters: Sequence[torch.Tensor]) -> None:
        for parameter in parameters:
            if parameter.grad is not None:
                self.move(parameter)
        self.finish()

    def exchange(self, source: torch.Tensor) -> None:
        """Reduce the gradients that wait, slice by slice."""
        for elements, slices in self._list_reductions():
            self._reduce_together(source, elements, slices)

    def _reduce_together(self, source: torch.Tensor, elements: int, slices: int) -> None:
        """Reduce slices: those of several partitions are copied into one tensor first."""
        with self.recorder.work_apart("", "communication", overlaps=False):
            reduced = torch.empty(elements, dtype=self.dtype) if slices > 1 else source.narrow(0, 0, elements)
            dist.all_reduce(reduced, group=self.group)

    def keep(self) -> None:
        """Make the place of the gradients of the own partition when the first of them was reduced."""
        if self._gradients is None and any(id(parameter) in self._local for parameter in self.waiting):
            with self.recorder.work_apart("", "gradients"):
                self._gradients = torch.empty(self._local_elements, dtype=self.dtype)

    def add_up(self) -> None:
        """Add the gradients of this pass to those of the passes before."""
        if self._sums is None:
            self._sums = self._gradients
        elif self._gradients is not None:
            with self.recorder.work_apart("", "gradients"):
                self._sums.add_(self._gradients)
        self._gradients = None

    def _list_reductions(self) -> Iterator[tuple[int, int]]:
        """Yield the elements of each all-reduce, and of how many slices they are: those that exceed a bucket together.

        Slices of the same partition that follow on each other are one.
        """
        merged: list[_Slice] = []
        for parameter in self.waiting:
            for part in self._partitions.list_slices(parameter):
                if merged and merged[-1].rank == part.rank:
                    merged[-1] = _Slice(part.rank, merged[-1].elements + part.elements)
                else:
                    merged.append(part)
        elements = slices = 0
        for part in merged:
            elements, slices = elements + part.elements, slices + 1
            if elements > self.ELEMENTS:
                yield elements, slices
                elements = slices = 0
        if slices:
            yield elements, slices
