"""ZeRO by the rules and defaults of DeepSpeed: what all stages share, and stages 1 and 2.

The trained weights lie one after the other in a flat tensor, of which each rank has an equal part: a partition, with
the optimizer's state for a copy of it in float32. Gradients are gathered in a bucket of fixed size. It is made with
the first gradient; whenever the next gradient does not fit, what is in it is reduced by all-reduces. A rank keeps the
gradients of weights that have elements in its partition, whole. After the update the partitions are gathered.

The stages differ in when gradients are reduced:

- Stage 1 (`PartitionedStates`) adds up the gradients of all passes in the weights, and reduces them once, when the last
  backward pass is over.
- Stage 2 (`PartitionedGradients`) reduces them during each backward pass, and adds what the rank keeps to that of the
  passes before.

Nothing runs beside that: neither stage has ``overlap_comm`` unless it is asked for.

Here tensors have shapes and no values: what counts is which tensors are alive, and the sizes of what is exchanged.
Addresses: ``deepspeed/runtime/zero/stage_1_and_2.py`` and ``config.py`` at github.com/deepspeedai/DeepSpeed.

Addresses: ``deepspeed/runtime/zero/stage_1_and_2.py``, ``stage3.py`` beside it, and ``config.py`` at
github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import torch
import torch.distributed as dist

from profilerkit import InputError
from profilerkit.trace.records import WeightRecord
from profilerkit_predict.meshes.records import Message, OptimizerShare

from ..compat.autograd import call_after_backward
from ..training.differentiation import follow_gradients
from .recorder import RankRecorder
from .shares import count_bytes
from .step_scheme import StepScheme

__all__ = [
    "MASTER_BYTES",
    "GradientBucket",
    "PartitionedGradients",
    "PartitionedStates",
    "describe_partition",
    "require_one_dtype",
]

#: Bytes of an element that the optimizer updates: a float32.
MASTER_BYTES = 4


def require_one_dtype(parameters: Sequence[torch.Tensor]) -> torch.dtype:
    """Return the dtype of weights; raises `InputError` where they have several, which DeepSpeed does not flatten."""
    dtypes = {parameter.dtype for parameter in parameters}
    if len(dtypes) != 1:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)) or "none that is trained"
        raise InputError(f"the weights have the dtypes {names}, and ZeRO flattens weights of one; build them in one")
    return dtypes.pop()


def describe_partition(elements: int) -> WeightRecord:
    """Return what the optimizer of a rank updates: so many elements of the weights, in float32."""
    return WeightRecord("partition", 0, elements, elements * MASTER_BYTES, "float32", True, shape=(elements,))


class GradientBucket(ABC):
    """Gradients that wait to be exchanged together, until the next does not fit or the backward pass ends.

    One that is larger than the bucket waits alone, in its own tensor.
    """

    #: ``reduce_bucket_size``: the elements of the bucket, which is as large whatever the model.
    ELEMENTS: ClassVar[int] = 500_000_000
    #: Whether the bucket stays from step to step; otherwise from the first gradient until all are exchanged.
    STAYS: ClassVar[bool] = False

    def __init__(self, dtype: torch.dtype, group: Any, recorder: RankRecorder) -> None:
        self.dtype: torch.dtype = dtype
        self.group: Any = group
        self.recorder: RankRecorder = recorder
        #: The parameters whose gradients wait.
        self.waiting: list[torch.Tensor] = []
        self._elements = 0
        #: A gradient for which the bucket is too small.
        self._large: torch.Tensor | None = None
        self._flat = self._make_flat() if self.STAYS else None
        self._has_begun = False

    def _make_flat(self) -> torch.Tensor:
        with self.recorder.work_apart("", "communication"):
            return torch.empty(self.ELEMENTS, dtype=self.dtype)

    @abstractmethod
    def exchange(self, source: torch.Tensor) -> None:
        """Exchange the gradients that wait, one behind the other in this tensor."""

    @abstractmethod
    def keep(self) -> None:
        """Keep what is the rank's own of the gradients that waited."""

    @abstractmethod
    def add_up(self) -> None:
        """Add what was kept in a pass to that of the passes before; the bucket is empty, and still there."""

    def take(self, parameter: torch.Tensor) -> None:
        """Take a gradient that has come, and exchange what waits when the backward pass ends."""
        self.call_at_end(self.finish)
        self.move(parameter)

    def call_at_end(self, call: Callable[[], None]) -> None:
        """Have a function called when the backward pass ends: the first of a pass; it must call `finish`."""
        if not self._has_begun:
            call_after_backward(call)
            self._has_begun = True

    def open(self) -> torch.Tensor:
        """Make the bucket if it is not there, and return it."""
        if self._flat is None:
            self._flat = self._make_flat()
        return self._flat

    def move(self, parameter: torch.Tensor) -> None:
        """Move a gradient to the bucket, which is emptied before if it has no place for it."""
        flat = self.open()
        if self._elements + parameter.numel() > self.ELEMENTS:
            self._empty(flat)
        if parameter.numel() > self.ELEMENTS:
            self._large = parameter.grad
        self.waiting.append(parameter)
        self._elements += parameter.numel()
        parameter.grad = None

    def _empty(self, flat: torch.Tensor) -> None:
        if self.waiting:
            self.exchange(flat if self._large is None else self._large.flatten())
            self._large = None  # before there is memory for what is kept
            self.keep()
            self.waiting.clear()
            self._elements = 0

    def finish(self) -> None:
        """Exchange what waits; the pass is over."""
        self._empty(self.open())
        self.add_up()
        self._has_begun = False
        if not self.STAYS:
            self._flat = None


# Stages 1 and 2: each rank updates its part of the weights, which all have whole --------------------------------------


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


@dataclass(frozen=True)
class _Deal:
    """The trained weights and how they are dealt out, as one rank sees it.

    Attributes:
        parameters: All trained weights, in the order in which they lie in the flat tensor.
        dtype: Their dtype.
        partitions: Which elements are whose.
        local: The weights that have elements in this rank's partition; their gradients are kept whole.
    """

    parameters: Sequence[torch.Tensor]
    dtype: torch.dtype
    partitions: _Partitions
    local: Sequence[torch.Tensor]


def _deal_out(model: torch.nn.Module, group: Any) -> _Deal:
    """Deal out the trained weights of a model to the ranks of a group."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    dtype = require_one_dtype(parameters)
    partitions = _Partitions(parameters, dist.get_world_size(group))
    rank = dist.get_rank(group)
    local = [parameter for parameter in parameters if partitions.has_part(rank, parameter)]
    return _Deal(parameters, dtype, partitions, local)


class _PartitionedUpdate(StepScheme):
    """Reduces gradients in a bucket, keeps those of the rank's own partition, and gathers what each rank updates.

    Args:
        group: The ranks.
    """

    #: What was dealt out; there once `prepare` was called, as a step runs only then.
    _deal: _Deal

    def __init__(self, group: Any) -> None:
        self._group = group

    def prepare(self, model: torch.nn.Module, rehearse: Callable[[], None]) -> None:
        """Deal out the trained weights, and say what the optimizer of this rank updates."""
        self._deal = _deal_out(model, self._group)
        partition = describe_partition(self._deal.partitions.size)
        self.optimizer_share = OptimizerShare((partition,), copy_bytes=partition.bytes, update_bytes=partition.bytes)
        self.gradient_bytes = count_bytes(self._deal.local)

    @contextmanager
    def in_step(self, recorder: RankRecorder) -> Iterator[None]:
        """Reduce the gradients of the backward passes inside, and gather the weights after them."""
        bucket = _ReducedBucket(self._deal, self._group, recorder)
        with follow_gradients(self._deal.parameters, partial(self._take, bucket)):
            yield
        ranks = tuple(dist.get_process_group_ranks(self._group))
        gathered_bytes = self._deal.partitions.size * len(ranks) * self._deal.dtype.itemsize
        recorder.note_update(Message("all-gather", ranks, gathered_bytes), "")

    @abstractmethod
    def _take(self, bucket: _ReducedBucket, parameter: torch.Tensor) -> None:
        """Do what the stage does as soon as a weight has its gradient."""


class PartitionedStates(_PartitionedUpdate):
    """Stage 1: gradients stay in the weights, and are reduced when the last backward pass is over."""

    def __init__(self, group: Any) -> None:
        super().__init__(group)
        self._is_last_pass = True

    def synchronize(self, model: torch.nn.Module, is_last: bool) -> None:
        """Note whether the pass that comes is the last one. The model itself needs no setting, as it does with FSDP."""
        self._is_last_pass = is_last

    def _take(self, bucket: _ReducedBucket, parameter: torch.Tensor) -> None:
        bucket.open()  # DeepSpeed makes it with the first gradient of any pass, and uses it in the last
        if self._is_last_pass:
            bucket.call_at_end(partial(bucket.reduce_all, self._deal.parameters))


class PartitionedGradients(_PartitionedUpdate):
    """Stage 2: each gradient moves to the bucket as soon as it is there, in each pass."""

    def synchronize(self, model: torch.nn.Module, is_last: bool) -> None:
        """Do nothing: all passes are alike."""

    def _take(self, bucket: _ReducedBucket, parameter: torch.Tensor) -> None:
        bucket.take(parameter)


class _Reduction(NamedTuple):
    """One all-reduce: its elements, and of how many slices they are."""

    elements: int
    slices: int


class _ReducedBucket(GradientBucket):
    """Reduces gradients over all ranks, and keeps those of the rank's own partition."""

    def __init__(self, deal: _Deal, group: Any, recorder: RankRecorder) -> None:
        super().__init__(deal.dtype, group, recorder)
        self._partitions = deal.partitions
        self._local_ids = {id(parameter) for parameter in deal.local}
        self._local_elements = sum(parameter.numel() for parameter in deal.local)
        #: The gradients that are kept of this pass; None before the first of them was reduced.
        self._gradients: torch.Tensor | None = None
        #: Their sums over all passes before it; None before the first pass is over.
        self._sums: torch.Tensor | None = None

    def reduce_all(self, parameters: Iterable[torch.Tensor]) -> None:
        """Reduce the gradients of all these weights that have one; the backward pass is over."""
        for parameter in parameters:
            if parameter.grad is not None:
                self.move(parameter)
        self.finish()

    def exchange(self, source: torch.Tensor) -> None:
        """Reduce the gradients that wait, several slices at a time."""
        slices = [part for parameter in self.waiting for part in self._partitions.list_slices(parameter)]
        for reduction in _group_slices(_merge_neighbors(slices), self.ELEMENTS):
            self._reduce(source, reduction)

    def _reduce(self, source: torch.Tensor, reduction: _Reduction) -> None:
        """Reduce slices: a single one where it lies in the bucket, several in a tensor into which they are copied.

        Where in the bucket a slice begins makes no difference to sizes: a view of as many elements stands for it.
        """
        with self.recorder.work_apart("", "communication", overlaps=False):
            if reduction.slices > 1:
                reduced = torch.empty(reduction.elements, dtype=self.dtype)
            else:
                reduced = source.narrow(0, 0, reduction.elements)
            dist.all_reduce(reduced, group=self.group)

    def keep(self) -> None:
        """Make the place of the gradients of the own partition when the first of them was reduced."""
        if self._gradients is None and any(id(parameter) in self._local_ids for parameter in self.waiting):
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


def _merge_neighbors(slices: Iterable[_Slice]) -> list[_Slice]:
    """Return slices with those that follow each other in the same partition made one.

    >>> _merge_neighbors([_Slice(rank=0, elements=3), _Slice(rank=0, elements=4), _Slice(rank=1, elements=5)])
    [_Slice(rank=0, elements=7), _Slice(rank=1, elements=5)]
    """
    by_rank = groupby(slices, key=lambda part: part.rank)
    return [_Slice(rank, sum(part.elements for part in neighbors)) for rank, neighbors in by_rank]


def _group_slices(slices: Iterable[_Slice], most: int) -> Iterator[_Reduction]:
    """Yield the all-reduces of slices: each takes slices until it has more than ``most`` elements.

    The slice with which it has more belongs to it, as in DeepSpeed: it looks at the sum after it has added a slice.

    >>> list(_group_slices([_Slice(0, 6), _Slice(1, 6), _Slice(2, 6)], most=10))
    [_Reduction(elements=12, slices=2), _Reduction(elements=6, slices=1)]
    """
    reduction = _Reduction(0, 0)
    for part in slices:
        reduction = _Reduction(reduction.elements + part.elements, reduction.slices + 1)
        if reduction.elements > most:
            yield reduction
            reduction = _Reduction(0, 0)
    if reduction.slices:
        yield reduction
