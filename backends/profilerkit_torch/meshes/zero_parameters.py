"""ZeRO 3 by the rules and defaults of DeepSpeed: each rank keeps a part of each weight, and gathers needed weights.

`gathered_weights` gathers and frees them. Gradients wait in a bucket of fixed size, which stays from step to step;
it is scattered if the next does not fit. The small weights, which stay whole, are gathered again after each update.
Addresses: ``stage3.py`` and ``config.py`` in ``deepspeed/runtime/zero`` at github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn

from profilerkit_predict.meshes.records import Message, OptimizerShare, Purpose

from ..training.differentiation import follow_gradients
from .gathered_weights import GatheredWeights
from .gradient_bucket import MASTER_BYTES, GradientBucket, describe_partition
from .rank_memory import count_bytes, find_share
from .recorder import RankRecorder
from .step_scheme import StepScheme

__all__ = ["PartitionedParameters"]

#: ``sub_group_size``: the elements that the optimizer updates together.
_UPDATED_ELEMENTS = 1_000_000_000


class PartitionedParameters(StepScheme):
    """Gathers weights when they are needed, and scatters their gradients, both in each pass."""

    _weights: GatheredWeights  #: set by `prepare`, which is called before a step

    def __init__(self, group: Any) -> None:
        self._group = group

    def prepare(self, model: nn.Module, rehearse: Callable[[], None]) -> None:
        """Divide the weights; the optimizer updates the parts themselves in float32, or float32 copies of them."""
        self._weights = GatheredWeights(model, self._group, rehearse)
        parts = [weight.partition for weight in self._weights.trainable]
        partition = describe_partition(sum(part.numel() for part in parts))
        self.optimizer_share = OptimizerShare(
            (partition,),
            copy_bytes=0 if self._weights.dtype == torch.float32 else partition.bytes,
            update_bytes=min(partition.bytes, _UPDATED_ELEMENTS * MASTER_BYTES),
        )
        self.gradient_bytes = count_bytes(parts)

    def synchronize(self, model: nn.Module, is_last: bool) -> None:
        """Begin a pass at the first layer."""
        self._weights.begin_pass()

    def find_share(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the rank's part of a weight; buffers are whole."""
        weight = self._weights.by_parameter.get(id(tensor))
        return find_share(tensor) if weight is None else weight.partition

    @contextmanager
    def in_step(self, recorder: RankRecorder) -> Iterator[None]:
        """Gather weights and scatter gradients inside; gather the small weights after the update."""
        weights = self._weights.by_parameter.values()
        for weight in weights:
            recorder.memory.hold(weight.parameter, Purpose("gathered weights", weight.path))
        bucket = _ScatteredBucket(self._weights, self._group, recorder)
        trained = [weight.parameter for weight in self._weights.trainable]
        with self._weights.follow(recorder), follow_gradients(trained, bucket.take):
            yield
        ranks = tuple(dist.get_process_group_ranks(self._group))
        for weight in weights:
            if weight.is_small:
                gathered = count_bytes([weight.partition]) * len(ranks)
                recorder.exchanges.note_update(Message("all-gather", ranks, gathered), weight.path)


class _ScatteredBucket(GradientBucket):
    """Scatters gradients; the part that a rank keeps has its own buffer, which stays allocated like the bucket."""

    STAYS: ClassVar[bool] = True

    def __init__(self, weights: GatheredWeights, group: Any, recorder: RankRecorder) -> None:
        super().__init__([weight.parameter for weight in weights.trainable], weights.dtype, group, recorder)
        self._has_sums = False  #: whether a pass before this one has left gradients
        #: The elements of a rank's part of each weight, by the ``id`` of the parameter.
        self._parts = {id(weight.parameter): weight.partition.numel() for weight in weights.trainable}
        self._ranks = dist.get_world_size(group)
        with recorder.work_apart("", "gradients"):
            self._gradients = torch.empty(sum(self._parts.values()), dtype=weights.dtype)

    def exchange(self, source: torch.Tensor) -> None:
        """Scatter the waiting gradients: several, or a gradient to pad, are copied into one tensor first."""
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
        """Do nothing: the kept gradients have memory from the beginning."""

    def add_up(self) -> None:
        """Note that there are gradients now, to which the next pass adds."""
        self._has_sums = True
