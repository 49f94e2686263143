"""ZeRO 1 and 2 by the rules and defaults of DeepSpeed: each rank updates its part of the weights, which all have whole.

The trained weights lie one after the other in a flat tensor, of which each rank has an equal part: a partition, with
the optimizer's state for a copy of it in float32. Gradients are gathered in a bucket of fixed size, which is made with
the first gradient and reduced, by an all-reduce, whenever the next does not fit. A rank keeps the gradients of weights
that have elements in its partition, whole. After the update the partitions are gathered.

In a step without accumulated gradients the two stages do the same: DeepSpeed reduces while it goes back in both.
Addresses: ``deepspeed/runtime/zero/stage_1_and_2.py`` and ``config.py`` at github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from profilerkit import InputError
from profilerkit.trace.records import WeightRecord
from profilerkit_predict.meshes.records import OptimizerShare

from ..compat import call_after_backward
from ..training.differentiation import follow_gradients
from .collectives import Message
from .recorder import RankRecorder
from .shares import count_bytes
from .step_scheme import StepScheme

__all__ = ["BUCKET_ELEMENTS", "MASTER_BYTES", "PartitionedStates", "require_one_dtype"]

#: ``reduce_bucket_size``: the elements of the bucket, which is as large whatever the model.
BUCKET_ELEMENTS = 500_000_000
#: Bytes of an element that the optimizer updates: a float32.
MASTER_BYTES = 4
#: Each partition has a multiple of so many elements.
_ALIGNMENT = 2


def require_one_dtype(parameters: Sequence[torch.Tensor]) -> torch.dtype:
    """Return the dtype of weights; raises `InputError` where they have several, which DeepSpeed does not flatten."""
    dtypes = {parameter.dtype for parameter in parameters}
    if len(dtypes) != 1:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)) or "none that is trained"
        raise InputError(f"the weights have the dtypes {names}, and ZeRO flattens weights of one; build them in one")
    return dtypes.pop()


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
    """Reduces gradients in a bucket, keeps those of the rank's own partition, and gathers what each rank updates."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def prepare(self, model: torch.nn.Module, rehearse: Any) -> None:
        """Deal out the trained weights."""
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._dtype = require_one_dtype(self._parameters)
        rank, ranks = dist.get_rank(self._group), dist.get_world_size(self._group)
        self._partitions = partitions = _Partitions(self._parameters, ranks)
        self._local = [parameter for parameter in self._parameters if partitions.has_part(rank, parameter)]
        elements, size = partitions.size, partitions.size * MASTER_BYTES
        partition = WeightRecord("partition", 0, elements, size, "float32", True, shape=(elements,))
        self.optimizer_share = OptimizerShare((partition,), copy_bytes=size, update_bytes=size)
        self.gradient_bytes = count_bytes(self._local)

    @contextmanager
    def in_step(self, recorder: RankRecorder) -> Iterator[None]:
        """Reduce the gradients of the backward pass inside, and gather the weights after it."""
        bucket = _Bucket(self._partitions, self._local, self._dtype, self._group, recorder)
        with follow_gradients(self._parameters, bucket.take):
            yield
        ranks = tuple(dist.get_process_group_ranks(self._group))
        gathered = self._partitions.size * len(ranks) * self._dtype.itemsize
        recorder.exchanges.add(Message("all-gather", ranks, gathered), "", "update")


class _Bucket:
    """The gradients that wait to be reduced, and those of the rank's own partition that were."""

    def __init__(
        self,
        partitions: _Partitions,
        local: Sequence[torch.Tensor],
        dtype: torch.dtype,
        group: Any,
        recorder: RankRecorder,
    ) -> None:
        self._partitions = partitions
        self._local = {id(parameter) for parameter in local}
        self._local_elements = sum(parameter.numel() for parameter in local)
        self._dtype = dtype
        self._group = group
        self._recorder = recorder
        self._waiting: list[torch.Tensor] = []
        #: The bucket, from the first gradient on to the end of the backward pass.
        self._flat: torch.Tensor | None = None
        #: A gradient that is larger than the bucket.
        self._large: torch.Tensor | None = None
        self._gradients: torch.Tensor | None = None

    def take(self, parameter: torch.Tensor) -> None:
        """Move a gradient to the bucket, which is reduced before if it has no place for it."""
        if self._flat is None:
            call_after_backward(self._finish)
            with self._recorder.work_apart("", "communication"):
                self._flat = torch.empty(BUCKET_ELEMENTS, dtype=self._dtype)
        if self._count_waiting() + parameter.numel() > BUCKET_ELEMENTS:
            self._reduce()
        if parameter.numel() > BUCKET_ELEMENTS:
            self._large = parameter.grad
        self._waiting.append(parameter)
        parameter.grad = None

    def _count_waiting(self) -> int:
        return sum(parameter.numel() for parameter in self._waiting)

    def _finish(self) -> None:
        self._reduce()
        self._flat = None

    def _reduce(self) -> None:
        """Reduce what waits, and keep what is of the own partition."""
        for elements, slices in self._list_reductions():
            self._reduce_together(elements, slices)
        self._large = None
        if self._gradients is None and any(id(parameter) in self._local for parameter in self._waiting):
            with self._recorder.work_apart("", "gradients"):
                self._gradients = torch.empty(self._local_elements, dtype=self._dtype)
        self._waiting.clear()

    def _reduce_together(self, elements: int, slices: int) -> None:
        """Reduce slices: those of several partitions are copied into one tensor first."""
        source = self._flat if self._large is None else self._large.flatten()
        with self._recorder.work_apart("", "communication"):
            if source is None or slices > 1:
                reduced = torch.empty(elements, dtype=self._dtype)
            else:
                reduced = source.narrow(0, 0, elements)
            dist.all_reduce(reduced, group=self._group)

    def _list_reductions(self) -> Iterator[tuple[int, int]]:
        """Yield the elements of each all-reduce, and of how many slices they are: those that exceed a bucket together.

        Slices of the same partition that follow on each other are one.
        """
        merged: list[_Slice] = []
        for parameter in self._waiting:
            for part in self._partitions.list_slices(parameter):
                if merged and merged[-1].rank == part.rank:
                    merged[-1] = _Slice(part.rank, merged[-1].elements + part.elements)
                else:
                    merged.append(part)
        elements = slices = 0
        for part in merged:
            elements, slices = elements + part.elements, slices + 1
            if elements > BUCKET_ELEMENTS:
                yield elements, slices
                elements = slices = 0
        if slices:
            yield elements, slices
