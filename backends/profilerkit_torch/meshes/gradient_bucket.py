"""The bucket of gradients that all stages of ZeRO have, and their common rules, as in DeepSpeed.

Gradients are gathered in a bucket of the same size for every model. Whenever the next gradient does not fit, the bucket
is exchanged. Tensors have shapes and no values here: only the tensors alive and the sizes of exchanges count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from profilerkit import InputError
from profilerkit.trace.records import WeightRecord

from ..compat.autograd import call_after_backward
from .recorder import RankRecorder

__all__ = ["MASTER_BYTES", "GradientBucket", "describe_partition", "require_one_dtype"]

#: Bytes of an element that the optimizer updates: a float32.
MASTER_BYTES = 4


def require_one_dtype(parameters: Sequence[torch.Tensor]) -> torch.dtype:
    """Return the dtype of weights; raises `InputError` if they have several, which DeepSpeed does not flatten."""
    dtypes = {parameter.dtype for parameter in parameters}
    if len(dtypes) != 1:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)) or "none that is trained"
        raise InputError(f"the weights have the dtypes {names}, and ZeRO flattens weights of one; build them in one")
    return dtypes.pop()


def describe_partition(elements: int) -> WeightRecord:
    """Return the part of the weights that the optimizer of a rank updates: so many elements, in float32."""
    return WeightRecord("partition", 0, elements, elements * MASTER_BYTES, "float32", True, shape=(elements,))


class GradientBucket(ABC):
    """Gradients that wait to be exchanged together, until the next gradient does not fit or the backward pass ends.

    A scheme calls `take` with each gradient as soon as it is there, or `exchange_at_end` to leave them in the weights
    until the backward pass ends. A gradient that is larger than the bucket waits alone, in its own tensor. What a
    scheme does with the gradients are the abstract methods: `exchange` and `keep` in turn, whenever the bucket is
    emptied, and `add_up` when the backward pass has ended.
    """

    #: ``reduce_bucket_size``: the elements of the bucket, the same for every model.
    ELEMENTS: ClassVar[int] = 500_000_000
    #: Whether the bucket stays from step to step; otherwise from the first gradient until all are exchanged.
    STAYS: ClassVar[bool] = False

    def __init__(
        self, parameters: Sequence[torch.Tensor], dtype: torch.dtype, group: Any, recorder: RankRecorder
    ) -> None:
        self.dtype: torch.dtype = dtype
        self.group: Any = group
        self.recorder: RankRecorder = recorder
        self._parameters = parameters
        self.waiting: list[torch.Tensor] = []  #: the parameters whose gradients wait
        self._elements = 0
        self._large: torch.Tensor | None = None  #: a gradient for which the bucket is too small
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
        """Make memory for the rank's part of the gradients that waited, if there is none yet."""

    @abstractmethod
    def add_up(self) -> None:
        """Add the gradients kept in a pass to the sums of earlier passes; the empty bucket stays allocated."""

    def take(self, parameter: torch.Tensor) -> None:
        """Take a new gradient, and exchange the waiting gradients when the backward pass ends."""
        self.exchange_at_end()
        self._move(parameter)

    def exchange_at_end(self) -> None:
        """Have the gradients that wait or that the weights have then exchanged when the backward pass ends."""
        if not self._has_begun:
            call_after_backward(self._finish)
            self._has_begun = True

    def open(self) -> torch.Tensor:
        """Make the bucket if there is none, and return it."""
        if self._flat is None:
            self._flat = self._make_flat()
        return self._flat

    def _move(self, parameter: torch.Tensor) -> None:
        """Move a gradient to the bucket, which is emptied first if the gradient does not fit."""
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
            self._large = None  # freed before `keep` allocates
            self.keep()
            self.waiting.clear()
            self._elements = 0

    def _finish(self) -> None:
        """Exchange all gradients; the pass is over."""
        for parameter in self._parameters:
            if parameter.grad is not None:
                self._move(parameter)
        self._empty(self.open())
        self.add_up()
        self._has_begun = False
        if not self.STAYS:
            self._flat = None
