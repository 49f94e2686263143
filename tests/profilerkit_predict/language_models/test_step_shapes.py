"""The traffic of a step: what has a value for each token counts, and the square of the prompt does not."""

from __future__ import annotations

from math import prod

import pytest

from profilerkit.trace.records import OpRecord, TensorInfo
from profilerkit_predict.language_models.laws import Passes
from profilerkit_predict.language_models.step_shapes import TrafficShape, find_shapes

HIDDEN, HEADS, SIZE = 96, 4, 8


def operator(name: str, layer: str, shape: tuple[int, ...], macs: int = 0) -> OpRecord:
    """Return an operator of float32 that reads as many bytes as it writes."""
    size = 4 * prod(shape)
    return OpRecord(name, layer, 0, macs, 2 * macs, size, size, (TensorInfo(shape, "float32"),))


def follow(tokens: int, keys: int) -> list[OpRecord]:
    """Return the operators of a layer, whose attention has a sink beside the scores of the keys, as that of gpt_oss."""
    product = HEADS * tokens * keys * SIZE
    return [
        operator("aten.bmm.default", "attention", (1, HEADS, tokens, keys), product),
        operator("aten.cat.default", "attention", (1, HEADS, tokens, keys + 1)),
        operator("aten.amax.default", "attention", (1, HEADS, tokens, 1)),
        operator("aten.bmm.default", "attention", (1, HEADS, tokens, SIZE), product),
        operator("aten.silu.default", "mlp", (1, tokens, HIDDEN)),
        operator("aten.where.self", "", (1, 1, tokens, keys)),
    ]


@pytest.mark.parametrize("prompt", [HIDDEN, HIDDEN + 1, HIDDEN - 1, HEADS])
def test_traffic_is_what_has_a_value_for_each_token(prompt: int) -> None:
    """An activation reads and writes 96 floats for each token, also where (1, 96, 96) looks like a square of tokens.

    The scores of attention and its mask are such squares, which one fused operator never writes.
    """
    passes = Passes(follow(prompt, prompt), follow(1, prompt + 1), 1, prompt, {})
    shapes = find_shapes(passes)
    assert shapes is not None
    assert shapes.traffic == {TrafficShape("activation", 2 * 4 * HIDDEN, "float32"): 1}
    assert {one.pairs.rate: count for one, count in shapes.attention.items()} == {2 * HEADS * SIZE: 1}
