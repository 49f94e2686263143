"""The mask of Keras' attention layers: Keras takes booleans, and on torch makes numbers of them that a kernel adds.

In a graph of TensorFlow the same booleans choose among the scores, which costs nothing. A layer of Keras costs the same
on both, so the addition is taken off again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.costs.attention import attention
from profilerkit.trace.records import LayerCall, OpRecord

__all__ = ["take_off_masks"]

#: Keras' layers that call torch's attention, and the attribute with the number of heads of the queries.
_HEADS = {"GroupedQueryAttention": "num_query_heads", "MultiHeadAttention": "num_heads"}
_KERNELS = ("aten.scaled_dot_product_attention", "aten._scaled_dot_product")


def take_off_masks(operators: list[OpRecord], module: Any, call: LayerCall, path: str, number: int) -> None:
    """Take the addition of a mask off each attention in the call of a layer that has just ended.

    ``operators`` are all so far, ``path`` is that of the layer, and ``number`` that of the call among its calls.
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
