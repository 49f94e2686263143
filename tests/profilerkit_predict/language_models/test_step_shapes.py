"""The traffic of a step: what has a value for each token counts, and the square of the prompt does not."""

from __future__ import annotations

import pytest

from profilerkit.trace.records import OpRecord, TensorInfo
from profilerkit_predict.language_models.laws import Passes, TrafficShape, find_shapes

HIDDEN, HEADS = 96, 4


def operator(name: str, layer: str, shape: tuple[int, ...], elements: int) -> OpRecord:
    """Return an operator of float32 that reads as many bytes as it writes."""
    return OpRecord(name, layer, 0, 0, elements, 4 * elements, 4 * elements, (TensorInfo(shape, "float32"),))


def follow(tokens: int, keys: int) -> list[OpRecord]:
    return [
        operator("aten.softmax.int", "attention", (1, HEADS, tokens, keys), HEADS * tokens * keys),
        operator("aten.cat.default", "attention", (1, HEADS, tokens, keys + 1), HEADS * tokens * (keys + 1)),
        operator("aten.silu.default", "mlp", (1, tokens, HIDDEN), tokens * HIDDEN),
    ]


@pytest.mark.parametrize("prompt", [HIDDEN, HIDDEN + 1, HIDDEN - 1, HEADS])
def test_a_prompt_as_long_as_a_layer_is_wide_hides_no_traffic(prompt: int) -> None:
    """An activation reads and writes 96 floats for each token, also where (1, 96, 96) looks like a square of tokens.

    The scores of attention are such squares, also with a sink beside those of the keys.
    """
    passes = Passes(follow(prompt, prompt), follow(1, prompt + 1), 1, prompt, {})
    shapes = find_shapes(passes)
    assert shapes is not None
    assert shapes.traffic == (TrafficShape("activation", 2 * 4 * HIDDEN, "float32"),)
