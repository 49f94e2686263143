"""Data parallel, by the rules of ``DistributedDataParallel``, whose reducer in C++ refuses a group of one process.

Gradients are copied into buckets as they come. A full bucket is reduced over all ranks: the first bucket of a dtype at
1 MiB, so that reducing begins early, further buckets at 25 MiB. Buckets stay from step to step, beside the gradients.
Buffers are broadcast from rank 0 before each step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ..compat.autograd import call_after_backward
from ..training.differentiation import follow_gradients
from .rank_memory import count_bytes
from .recorder import RankRecorder
from .step_scheme import StepScheme

__all__ = ["DataParallel"]

#: The bytes at which a bucket is full: the first of each dtype, and the others.
_FIRST_LIMIT, _LIMIT = 2**20, 25 * 2**20


class DataParallel(StepScheme):
    """Broadcasts the buffers of a model, and reduces its gradients in the backward pass."""

    def __init__(self, model: nn.Module, group: Any) -> None:
        self._model = model
        self._group = group
        self._is_last = True

    def synchronize(self, model: nn.Module, is_last: bool) -> None:
        """Reduce the gradients in the last pass alone, as ``no_sync()`` does."""
        self._is_last = is_last

    @contextmanager
    def in_step(self, recorder: RankRecorder) -> Iterator[None]:
        """Broadcast buffers and reduce gradients inside."""
        buckets = _Buckets(self._model, self._group, recorder)

        def take(parameter: torch.Tensor) -> None:
            if self._is_last:
                buckets.take(parameter)

        with follow_gradients(buckets.parameters, take):
            buckets.broadcast(self._model.buffers())
            yield


class _Buckets:
    """The buckets of a model's gradients: one after the other in a tensor for each dtype."""

    def __init__(self, model: nn.Module, group: Any, recorder: RankRecorder) -> None:
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._group = group
        self._recorder = recorder
        self._limits: dict[torch.dtype, int] = defaultdict(lambda: _FIRST_LIMIT)
        #: The parameters whose gradients are in the bucket that is being filled.
        self._waiting: dict[torch.dtype, list[torch.Tensor]] = defaultdict(list)
        #: How many elements of the buckets were reduced.
        self._reduced: dict[torch.dtype, int] = defaultdict(int)
        with recorder.work_apart("", "communication"):
            elements = _count_by_dtype(self.parameters)
            self._flat = {dtype: torch.empty(number, dtype=dtype) for dtype, number in elements.items()}

    def broadcast(self, buffers: Iterable[torch.Tensor]) -> None:
        """Send all buffers of a dtype at once from rank 0."""
        with self._recorder.work_apart("", "communication"):
            for dtype, elements in _count_by_dtype(buffers).items():
                dist.broadcast(torch.empty(elements, dtype=dtype), 0, group=self._group)

    def take(self, parameter: torch.Tensor) -> None:
        """Take a new gradient; reduce its bucket if the bucket is full."""
        if not any(self._waiting.values()):
            call_after_backward(self._reduce_rest)
        waiting = self._waiting[parameter.dtype]
        waiting.append(parameter)
        if count_bytes(waiting) >= self._limits[parameter.dtype]:
            self._reduce(parameter.dtype)
            self._limits[parameter.dtype] = _LIMIT

    def _reduce_rest(self) -> None:
        for dtype in [dtype for dtype, waiting in self._waiting.items() if waiting]:
            self._reduce(dtype)

    def _reduce(self, dtype: torch.dtype) -> None:
        elements = sum(parameter.numel() for parameter in self._waiting[dtype])
        with self._recorder.work_apart("", "communication"):
            dist.all_reduce(self._flat[dtype].narrow(0, self._reduced[dtype], elements), group=self._group)
        self._reduced[dtype] += elements
        self._waiting[dtype].clear()


def _count_by_dtype(tensors: Iterable[torch.Tensor]) -> Mapping[torch.dtype, int]:
    """Return the elements of tensors of each dtype."""
    elements: Counter[torch.dtype] = Counter()
    for tensor in tensors:
        elements[tensor.dtype] += tensor.numel()
    return elements
