"""The mask of Keras' attention layers: Keras takes booleans, and on torch makes numbers of them that a kernel adds.

In a graph of TensorFlow the same booleans choose among the scores, which costs nothing. A layer of Keras costs the same
on both, so the addition is taken off again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from profilerkit.backend_kit.keras_layers import is_shipped
from profilerkit.costs.attention import attention
from profilerkit.trace.records import LayerCall, OpRecord

__all__ = ["without_masks"]

#: Keras' layers that call torch's attention, and the attribute with the number of heads of the queries.
_HEADS = {"GroupedQueryAttention": "num_query_heads", "MultiHeadAttention": "num_heads"}
_KERNELS = ("aten.scaled_dot_product_attention", "aten._scaled_dot_product")


def without_masks(
    operators: Sequence[OpRecord], module: Any, call: LayerCall, where: tuple[str, int]
) -> Iterator[tuple[int, OpRecord]]:
    """Yield the index of each masked attention in the call of a layer that has just ended, and what it is instead.

    ``where`` is the path of the layer and the index of the call.
    """
    heads = _HEADS.get(type(module).__name__)
    if heads is None or not is_shipped(module) or len(call.inputs) < 2:
        return
    (batch, *length, _), (_, *keys, _) = call.inputs[0].shape, call.inputs[1].shape
    inside = f"{where[0]}." if where[0] else ""  # all is inside of a model that is such a layer itself
    scores = batch * getattr(module, heads) * math.prod(length) * math.prod(keys)
    for index in range(len(operators) - 1, -1, -1):
        record = operators[index]
        if not f"{record.layer}.".startswith(inside):
            return
        if scores and record.call == where[1] and record.operator.startswith(_KERNELS):
            width = record.macs // scores
            if (record.macs, record.flops) == attention(scores, width, 0, has_mask=True):
                yield index, replace(record, flops=attention(scores, width, 0).flops)
