"""What holds of the counts of any size: linear in the batch, additive over layers, the same however it is written."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import cost, ones, trace_complete
from torch import nn

SIZE = st.integers(1, 9)
SUMMED = st.integers(2, 9)
FEW = settings(max_examples=25)


@st.composite
def layers(draw: st.DrawFn) -> tuple[nn.Module, int]:
    """Draw a stack of layers and the width of what it takes."""
    widths = [draw(SIZE) for _ in range(draw(st.integers(2, 4)))]
    stack: list[nn.Module] = []
    for width, following in pairwise(widths):
        stack += (nn.Linear(width, following, bias=draw(st.booleans())), draw(st.sampled_from(ACTIVATIONS))())
        if draw(st.booleans()):
            stack.append(draw(st.sampled_from((nn.LayerNorm, nn.RMSNorm)))(following))
    return nn.Sequential(*stack), widths[0]


ACTIVATIONS = (nn.ReLU, nn.GELU, nn.SiLU, nn.Identity)


@FEW
@given(layers(), SIZE, SIZE)
def test_counts_are_linear_in_the_batch(stack: tuple[nn.Module, int], batch: int, times: int) -> None:
    model, width = stack
    one, several = trace_complete(model, ones(batch, width)), trace_complete(model, ones(times * batch, width))
    assert (several.macs, several.flops) == (times * one.macs, times * one.flops)


@FEW
@given(layers(), SIZE)
def test_counts_are_additive_over_layers(stack: tuple[nn.Module, int], batch: int) -> None:
    model, width = stack
    whole, x = trace_complete(model, ones(batch, width)), ones(batch, width)
    macs = flops = 0
    for layer in model.children():
        part = trace_complete(layer, x)
        macs, flops = macs + part.macs, flops + part.flops
        x = ones(*layer(x).shape)
    assert (whole.macs, whole.flops) == (macs, flops)


@FEW
@given(layers(), SIZE, st.sampled_from([torch.float32, torch.bfloat16, torch.float16]), st.booleans(), st.booleans())
def test_counts_do_not_depend_on_device_dtype_gradients_or_training(
    stack: tuple[nn.Module, int], batch: int, dtype: torch.dtype, on_meta: bool, training: bool
) -> None:
    model, width = stack
    plain = trace_complete(model, ones(batch, width))
    device = "meta" if on_meta else "cpu"
    with torch.set_grad_enabled(training):
        x = torch.ones(batch, width, dtype=dtype, device=device, requires_grad=training)
        other = trace_complete(model.to(dtype=dtype, device=device).train(training), x)
    assert (other.macs, other.flops) == (plain.macs, plain.flops)


def by_matmul(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


def by_bmm(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    return torch.bmm((torch.bmm(q, k.mT) * q.shape[-1] ** -0.5).softmax(-1), v)


def by_einsum(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    scores = torch.einsum("bhle,bhse->bhls", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("bhls,bhsv->bhlv", scores.softmax(-1), v)


def by_baddbmm(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    none = q.new_zeros(q.shape[0], q.shape[1], k.shape[1])
    return torch.bmm(torch.baddbmm(none, q, k.mT, beta=0, alpha=q.shape[-1] ** -0.5).softmax(-1), v)


@FEW
@pytest.mark.parametrize("spelt", [by_matmul, by_bmm, by_einsum, by_baddbmm])
@given(st.tuples(SIZE, SIZE, SIZE, SUMMED, SUMMED, SIZE))
def test_attention_counts_the_same_however_it_is_written(
    spelt: Callable[..., Any], sizes: tuple[int, int, int, int, int, int]
) -> None:
    """Of a sum of one product, ``einsum`` computes the product alone: what is summed over is longer here."""
    batch, heads, length, keys, width, values = sizes
    q, k, v = ones(batch, heads, length, width), ones(batch, heads, keys, width), ones(batch, heads, keys, values)
    scores = batch * heads * length * keys
    attention = cost(F.scaled_dot_product_attention, q, k, v)
    assert attention[0] == scores * (width + values)
    assert cost(spelt, q, k, v) == attention


@FEW
@given(SIZE, st.integers(1, 4), SIZE, SIZE)
def test_multi_head_attention_is_four_projections_and_attention(
    batch: int, heads: int, length: int, per_head: int
) -> None:
    width = heads * per_head
    x = ones(batch, length, width)
    layer = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
    core = cost(F.scaled_dot_product_attention, *(ones(batch, heads, length, per_head),) * 3)
    projections = 4 * batch * length * width * width
    assert trace_complete(layer, x, x, x, need_weights=False).macs == core[0] + projections


@FEW
@given(st.integers(1, 3), SIZE, SIZE, SIZE, st.booleans(), st.sampled_from((nn.LSTM, nn.GRU, nn.RNN)))
def test_a_recurrent_layer_is_linear_in_steps_and_batch(
    depth: int, steps: int, batch: int, width: int, both_ways: bool, kind: type[nn.LSTM | nn.GRU | nn.RNN]
) -> None:
    layer = kind(width, 3, depth, bidirectional=both_ways)
    one, all_of_them = trace_complete(layer, ones(1, 1, width)), trace_complete(layer, ones(steps, batch, width))
    assert (all_of_them.macs, all_of_them.flops) == (steps * batch * one.macs, steps * batch * one.flops)


@FEW
@given(SIZE, SIZE, st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_a_convolution_is_a_product_of_its_unfolded_input(
    batch: int, length: int, channels: int, kernel: int, bias: bool
) -> None:
    x = ones(batch, channels, length + kernel, length + kernel)
    layer = nn.Conv2d(channels, 4, kernel, bias=bias)
    out = (length + 1) ** 2
    found = trace_complete(layer, x)
    assert found.macs == batch * out * 4 * channels * kernel**2
    assert found.flops == 2 * found.macs + bias * batch * 4 * out


#: Products of an empty batch.
OF_NOTHING: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "mm": (torch.mm, ((0, 3), (3, 4))),
    "mm over nothing": (torch.mm, ((2, 0), (0, 4))),
    "bmm": (torch.bmm, ((0, 2, 3), (0, 3, 4))),
    "addmm": (torch.addmm, ((4,), (0, 3), (3, 4))),
    "baddbmm": (torch.baddbmm, ((1,), (0, 2, 3), (0, 3, 4))),
    "linear": (F.linear, ((0, 3), (4, 3), (4,))),
    "bilinear": (F.bilinear, ((0, 3), (0, 4), (5, 3, 4))),
    "bilinear of a sequence of nothing": (F.bilinear, ((6, 0, 3), (6, 0, 4), (5, 3, 4))),
    "einsum": (lambda a, b: torch.einsum("ij,ik->jk", a, b), ((0, 3), (0, 4))),
    "matmul": (torch.matmul, ((0, 2, 3), (3, 4))),
    "cdist": (torch.cdist, ((0, 3), (4, 3))),
    "attention": (F.scaled_dot_product_attention, ((0, 2, 5, 4), (0, 2, 5, 4), (0, 2, 5, 4))),
    "conv1d": (F.conv1d, ((0, 3, 8), (4, 3, 2), (4,))),
    "conv2d": (F.conv2d, ((0, 3, 8, 8), (4, 3, 2, 2))),
    "conv_transpose2d": (F.conv_transpose2d, ((0, 3, 8, 8), (3, 4, 2, 2))),
}


@pytest.mark.parametrize("case", OF_NOTHING)
def test_products_of_nothing_cost_nothing(case: str) -> None:
    function, shapes = OF_NOTHING[case]
    assert cost(function, *(ones(*shape) for shape in shapes))[0] == 0
