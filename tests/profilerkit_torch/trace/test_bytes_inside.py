"""The mask of numbers that attention makes of one of booleans: alive while it runs, by hand and by the allocator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call
from torch.nn import functional as F

from profilerkit import ModelInputs

LENGTH = 64
#: Queries, keys, values and outputs each: two heads of 64 tokens of 8 floats.
ACTIVATION = 2 * LENGTH * 8 * 4
SCORES = LENGTH * LENGTH


def attend(self: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(x, x, x, mask)


def activations(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(1, 2, LENGTH, 8).to(dtype)


def booleans() -> torch.Tensor:
    return torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).tril()


def of_keys() -> torch.Tensor:
    return booleans()[:, :, -1:].clone()


#: By name: the mask, its bytes, and those of the mask of numbers that is made of it.
MASKS: dict[str, tuple[Callable[[], torch.Tensor], int, int]] = {
    "booleans": (booleans, SCORES, SCORES * 4),
    "keys alone": (of_keys, LENGTH, LENGTH * 4),
    "keys alone, expanded": (lambda: of_keys().expand(1, 1, LENGTH, LENGTH), LENGTH, SCORES * 4),
    "numbers": (lambda: booleans().float(), SCORES * 4, 0),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_of_booleans_is_there_as_numbers_too(name: str) -> None:
    """Input, output, the mask as it is given, and the one that attention makes."""
    mask, given, made = MASKS[name]
    memory = BACKEND.trace(Call(attend), ModelInputs(activations(), mask())).memory
    assert memory.live_bytes == (2 * ACTIVATION + given + made,)


def test_the_mask_has_the_dtype_of_the_queries() -> None:
    memory = BACKEND.trace(Call(attend), ModelInputs(activations(torch.bfloat16), booleans())).memory
    assert memory.live_bytes == (2 * ACTIVATION // 2 + SCORES + SCORES * 2,)


def test_a_mask_by_name_in_a_repeated_block_and_on_a_real_run() -> None:
    def twice(self: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x.sum().item()  # only a run can tell
        for _ in range(2):
            x = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
        return x

    trace = BACKEND.trace(Call(twice), ModelInputs(activations(), booleans()))
    assert trace.method == "a real run"
    attention = [
        live
        for operator, live in zip(trace.operators, trace.memory.live_bytes, strict=True)
        if "attention" in operator.operator
    ]
    inside = SCORES + SCORES * 4
    assert attention == [2 * ACTIVATION + inside, 3 * ACTIVATION + inside]


@pytest.mark.parametrize(("name", "difference"), [("booleans", SCORES), ("keys alone, expanded", LENGTH)])
def test_the_allocator_gives_out_as_much_more(name: str, difference: int) -> None:
    """With numbers from the start the booleans are not there; the kernel takes what it takes in both."""
    peaks = []
    for kind in (name, "numbers"):
        inputs = ModelInputs(activations(), MASKS[kind][0]())
        predicted = BACKEND.trace(Call(attend), inputs).memory.peak_bytes()
        peaks.append((predicted, BACKEND.measured_memory(Call(attend), inputs)))
    (predicted, measured), (predicted_of_numbers, measured_of_numbers) = peaks
    assert predicted - predicted_of_numbers == measured - measured_of_numbers == difference
