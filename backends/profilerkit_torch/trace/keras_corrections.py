"""Removing work that Keras does only on torch, so that a layer costs the same on torch and on TensorFlow.

Keras' attention takes masks of booleans. On torch it converts them to numbers that a kernel adds; in a graph the
booleans select among the scores, which costs nothing. Its recurrent layers run a trial step before they loop: in a
graph nothing uses this step and it is removed; on torch it runs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace
from torch import nn

from profilerkit.backend_kit.keras_kinds import is_keras, is_shipped
from profilerkit.costs.attention import attention
from profilerkit.trace.records import LayerCall, OpRecord

__all__ = ["TrialSteps", "take_off_masks"]

#: Keras' layers that call torch's attention, and the attribute with the number of heads of the queries.
_HEADS = {"GroupedQueryAttention": "num_query_heads", "MultiHeadAttention": "num_heads"}
_KERNELS = ("aten.scaled_dot_product_attention", "aten._scaled_dot_product")


def take_off_masks(operators: list[OpRecord], module: Any, call: LayerCall, path: str, number: int) -> None:
    """Take the addition of a mask off each attention in the call of a layer that has just ended.

    ``operators`` are all operators so far, ``path`` is the path of the layer, ``number`` the number of its call.
    """
    heads = _HEADS.get(type(module).__name__)
    if heads is None or not is_shipped(module) or len(call.inputs) < 2:
        return
    scores = getattr(module, heads) * _count_pairs(call)
    for index in _list_indices_inside(operators, path):
        record = operators[index]
        if not scores or record.call != number or not record.operator.startswith(_KERNELS):
            continue
        width = record.macs // scores
        if (record.macs, record.flops) == attention(scores, width, 0, has_mask=True):
            operators[index] = replace(record, flops=attention(scores, width, 0).flops)


def _count_pairs(call: LayerCall) -> int:
    """Return the pairs of a query and a key in all samples of a call, by the shapes of its first two inputs."""
    queries, values = call.inputs[:2]
    batch, *query_sizes, _ = queries.shape
    return batch * math.prod(query_sizes) * math.prod(values.shape[1:-1])


def _list_indices_inside(operators: Sequence[OpRecord], path: str) -> Iterator[int]:
    """Yield the indices of the last operators, from the end, that ran inside a layer: all if it is the model itself."""
    inside = f"{path}." if path else ""
    for index in range(len(operators) - 1, -1, -1):
        if not f"{operators[index].layer}.".startswith(inside):
            return
        yield index


# The trial step of recurrent layers -----------------------------------------------------------------------------------


@dataclass
class _Loop:
    """A recurrent layer that runs: the number of operators recorded before its first call and each step of its cell."""

    layer: Any
    first: int | None = None
    steps: list[int] = field(default_factory=list)


class TrialSteps:
    """Follows the recurrent layers that run, innermost last, and the calls of their cells."""

    def __init__(self) -> None:
        self._running: list[_Loop] = []

    def begin_layer(self, module: nn.Module) -> None:
        """Note that a layer of the model begins."""
        if is_keras(module) and isinstance(module, sys.modules["keras"].layers.RNN):
            self._running.append(_Loop(module))

    def begin_call(self, module: nn.Module, index: int) -> None:
        """Note that a module begins after so many operators, be it the model's or a cell that its layer hides."""
        if not self._running:
            return
        loop = self._running[-1]
        if loop.first is None:
            loop.first = index
        if module is loop.layer.cell:
            loop.steps.append(index)

    def end_layer(self, module: nn.Module, call: LayerCall, has_finished: bool) -> range:
        """Return the indices of the operators that a layer which ends has run for trial."""
        if not self._running or self._running[-1].layer is not module:
            return range(0)
        loop = self._running.pop()
        needed = call.inputs[0].shape[1] if has_finished else 0
        if loop.first is None or not 0 < needed < len(loop.steps):
            return range(0)
        return range(loop.first, loop.steps[-needed])
