"""Attention counts the same however it is spelled, and as the closed formula says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import cost, ones, trace_complete
from torch import nn

Function = Callable[..., Any]

INDEX = torch.tensor([0, 2])


BATCH, HEADS, LENGTH, KEYS, WIDTH, VALUES = 2, 3, 4, 5, 8, 6


def by_matmul(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return (q @ k.transpose(-1, -2)).softmax(-1) @ v


def by_bmm(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    return torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v)


def by_einsum(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    weights = torch.einsum("bhle,bhse->bhls", q, k).softmax(-1)
    return torch.einsum("bhls,bhsv->blhv", weights, v)


def by_baddbmm(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    scores = torch.baddbmm(q.new_zeros(BATCH * HEADS, LENGTH, KEYS), q, k.transpose(1, 2), alpha=0.5)
    return torch.bmm(scores.softmax(-1), v)


def by_keywords(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return F.scaled_dot_product_attention(query=q, key=k, value=v)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "attend", [by_matmul, by_bmm, by_einsum, by_baddbmm, by_keywords, F.scaled_dot_product_attention]
)
def test_attention_counts_the_same_however_it_is_spelled(attend: Function, dtype: torch.dtype) -> None:
    sizes = (LENGTH, WIDTH), (KEYS, WIDTH), (KEYS, VALUES)
    q, k, v = (ones(BATCH, HEADS, *size, dtype=dtype) for size in sizes)
    assert cost(attend, q, k, v)[0] == BATCH * HEADS * LENGTH * KEYS * (WIDTH + VALUES)


@pytest.mark.parametrize(
    ("options", "per_score"),
    [
        ({}, 6),
        ({"is_causal": True}, 6),
        ({"attn_mask": ones(4, 4)}, 7),  # numbers are added
        ({"attn_mask": ones(4, 4).bool()}, 6),  # booleans choose, as `masked_fill` does
        ({"dropout_p": 0.5}, 8),  # weights of the values are multiplied by zero or one, and scaled
    ],
)
def test_fused_attention_scales_masks_and_normalises_each_score(options: dict[str, Any], per_score: int) -> None:
    x = ones(1, 2, 4, 8)
    scores = 2 * 4 * 4
    found = cost(lambda x: F.scaled_dot_product_attention(x, x, x, **options), x)
    assert found == (scores * 16, 2 * scores * 16 + scores * per_score)


def test_a_mask_of_booleans_costs_what_it_does_spelt_out() -> None:
    x, mask = ones(1, 2, 4, 8), ones(4, 4).bool()

    def spelt_out(x: torch.Tensor) -> torch.Tensor:
        scores = (x @ x.mT * 0.5).masked_fill(~mask, -1e9)
        return scores.softmax(-1) @ x

    fused = cost(lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=mask), x)
    assert fused == cost(spelt_out, x) == (32 * 16, 2 * 32 * 16 + 32 * 6)


def test_grouped_queries_count_by_the_query_heads() -> None:
    q, k = ones(1, 4, 5, 8), ones(1, 2, 5, 8)
    found = cost(lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), q, k)
    assert found[0] == 4 * 5 * 5 * (8 + 8)


def test_attention_that_broadcasts_its_queries_counts_for_the_whole_batch() -> None:
    q, k = ones(1, 2, 4, 8), ones(3, 2, 4, 8)
    assert cost(F.scaled_dot_product_attention, q, k, k)[0] == 3 * 2 * 4 * 4 * (8 + 8)


@pytest.mark.parametrize(
    ("name", "arguments", "per_score"),
    [
        ("_scaled_dot_product_flash_attention_for_cpu", {}, 6),
        ("_scaled_dot_product_flash_attention_for_cpu", {"attn_mask": ones(4, 4)}, 7),
        ("_scaled_dot_product_attention_math", {}, 6),
        ("_scaled_dot_product_attention_math", {"attn_mask": ones(4, 4)}, 7),
        ("_scaled_dot_product_flash_attention", {}, 6),
        ("_scaled_dot_product_efficient_attention", {"attn_bias": None, "compute_log_sumexp": False}, 6),
        ("_scaled_dot_product_efficient_attention", {"attn_bias": ones(1, 2, 4, 4), "compute_log_sumexp": False}, 7),
    ],
)
def test_attention_by_the_kernel_behind_it(name: str, arguments: dict[str, Any], per_score: int) -> None:
    attend = getattr(torch.ops.aten, name)
    x = ones(1, 2, 4, 8)
    scores = 2 * 4 * 4
    assert cost(lambda x: attend(x, x, x, **arguments)[0], x) == (scores * 16, 2 * scores * 16 + scores * per_score)


def multihead_macs(batch: int, length: int, keys: int, width: int) -> int:
    projections = batch * width * width * (2 * length + 2 * keys)  # query and output; key and value
    return projections + batch * length * keys * 2 * width


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention(need_weights: bool, training: bool, batch_first: bool) -> None:
    layer = nn.MultiheadAttention(16, 2, batch_first=batch_first).train(training)
    x = ones(2, 5, 16) if batch_first else ones(5, 2, 16)
    assert trace_complete(layer, x, x, x, need_weights=need_weights).macs == multihead_macs(2, 5, 5, 16)


def test_multihead_attention_across_sequences() -> None:
    layer = nn.MultiheadAttention(16, 4, batch_first=True)
    assert trace_complete(layer, ones(2, 5, 16), ones(2, 7, 16), ones(2, 7, 16)).macs == multihead_macs(2, 5, 7, 16)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval, where torch has a fast path"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_encoder_layer(training: bool, norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first).train(training)
    assert trace_complete(layer, ones(2, 5, 16)).macs == multihead_macs(2, 5, 5, 16) + 2 * (2 * 5 * 16 * 32)


def test_transformer_encoder_with_a_padding_mask() -> None:
    """In evaluation torch would pack it into a nested tensor; the dense work is counted."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=True).eval()
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    one = multihead_macs(2, 5, 5, 16) + 2 * (2 * 5 * 16 * 32)
    assert trace_complete(encoder, ones(2, 5, 16), src_key_padding_mask=mask).macs == 3 * one


def test_whole_transformer() -> None:
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
    feed_forward = 2 * 16 * 32
    encoder = multihead_macs(2, 5, 5, 16) + 2 * 5 * feed_forward
    decoder = multihead_macs(2, 4, 4, 16) + multihead_macs(2, 4, 5, 16) + 2 * 4 * feed_forward
    assert trace_complete(model, ones(2, 5, 16), ones(2, 4, 16)).macs == encoder + decoder
