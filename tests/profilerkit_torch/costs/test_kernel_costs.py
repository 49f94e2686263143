"""Operators of other devices and libraries count as what they compute.

They are priced on meta tensors, as nothing here could run them.
The expected values are those of the plain layers.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import cost, ones, trace_complete
from torch import nn

from profilerkit_torch.costs import Cost, Kind, Shape, classify, op_cost
from profilerkit_torch.costs.registry import COSTS


def price(func: Any, args: tuple[Any, ...], out: Any, **kwargs: Any) -> Cost | None:
    assert classify(func) is Kind.FORMULA
    return op_cost(func, Kind.FORMULA, args, kwargs, out)


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device="meta")


X, WEIGHT, BIAS, OUT = meta(2, 4, 8, 8), meta(6, 2, 3, 3), meta(6), meta(2, 6, 6, 6)
#: out * (in_channels / groups) * kernel
CONVOLUTION = 2 * 6 * 6 * 6 * 2 * 3 * 3
ADDED = 2 * 6 * 6 * 6


class _Missing:
    """An operator that this release of torch does not have: the test that uses it is skipped."""

    @property
    def default(self) -> Any:
        pytest.skip(f"torch {torch.__version__} does not have it yet")


class _Operators:
    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops.aten, name, _Missing())


aten: Any = _Operators()


@pytest.mark.parametrize(
    ("func", "args", "per_output"),
    [
        (aten.cudnn_convolution, (X, WEIGHT, (0, 0), (1, 1), (1, 1), 2, False, False, True), 0),
        (aten.cudnn_convolution_relu, (X, WEIGHT, BIAS, (1, 1), (0, 0), (1, 1), 2), 2),
        (aten.cudnn_convolution_add_relu, (X, WEIGHT, OUT, 1, BIAS, (1, 1), (0, 0), (1, 1), 2), 3),
        (aten.miopen_convolution, (X, WEIGHT, BIAS, (0, 0), (1, 1), (1, 1), 2, False, False), 1),
        (aten.mkldnn_convolution, (X, WEIGHT, BIAS, (0, 0), (1, 1), (1, 1), 2), 1),
        (aten._mps_convolution, (X, WEIGHT, None, (0, 0), (1, 1), (1, 1), 2), 0),
        (aten._conv_depthwise2d, (X, WEIGHT, (3, 3), BIAS, (1, 1), (0, 0), (1, 1)), 1),
        (aten.slow_conv_dilated2d, (X, WEIGHT, (3, 3), BIAS), 1),
    ],
    ids=str,
)
def test_convolutions_of_every_library(func: Any, args: tuple[Any, ...], per_output: int) -> None:
    assert price(func.default, args, OUT) == (CONVOLUTION, 2 * CONVOLUTION + per_output * ADDED)


@pytest.mark.parametrize(
    ("func", "args"),
    [
        (aten.cudnn_convolution_transpose, (OUT, WEIGHT, (0, 0), (0, 0), (1, 1), (1, 1), 2, False, False, True)),
        (aten._mps_convolution_transpose, (OUT, WEIGHT, (0, 0), (0, 0), (1, 1), (1, 1), 2)),
        (aten.slow_conv_transpose2d, (OUT, WEIGHT, (3, 3))),
    ],
    ids=str,
)
def test_transposed_convolutions_of_every_library(func: Any, args: tuple[Any, ...]) -> None:
    """Each input element with one filter."""
    macs = 2 * 6 * 6 * 6 * 2 * 3 * 3
    assert price(func.default, args, X) == (macs, 2 * macs)


def test_a_convolution_of_time_first() -> None:
    found = cost(torch.conv_tbc, ones(7, 2, 4), ones(3, 4, 6), ones(6))
    macs = 5 * 2 * 6 * 4 * 3
    assert found == (macs, 2 * macs + 5 * 2 * 6)


def test_a_sum_of_powers_takes_a_power_and_an_addition_for_each_element() -> None:
    assert price(aten.linalg__powsum.default, (X, 2.0), meta(1)) == (0, 2 * 2 * 4 * 8 * 8)


def list_weights(layer: nn.RNNBase) -> list[torch.Tensor]:
    return [weight.to("meta") for weight in layer._flat_weights if isinstance(weight, torch.Tensor)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("kind", "mode"), [("LSTM", 2), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("library", ["cudnn", "cudnn under autocast", "miopen"])
def test_recurrent_layers_of_every_library(library: str, kind: str, mode: int, bidirectional: bool, bias: bool) -> None:
    """Under autocast the weights are pieces of one buffer in half, each a single column: matrices and biases alike."""
    layer = getattr(nn, kind)(4, 6, 2, bidirectional=bidirectional, bias=bias)
    x, weights, state = meta(7, 3, 4), list_weights(layer), meta(2, 3, 6)
    tail = (2, False, 0.0, False, bidirectional, (), None)
    if "autocast" in library:
        weights = [weight.view(-1, 1) for weight in weights]
    per_cell = 4 if bias else 2
    if "cudnn" in library:
        args: tuple[Any, ...] = (x, weights, per_cell, None, state, state, mode, 6, 0, *tail)
        found = price(aten._cudnn_rnn.default, args, (meta(7, 3, 6), state, state, x, x))
    else:
        args = (x, weights, per_cell, state, state, mode, 6, *tail)
        found = price(aten.miopen_rnn.default, args, (meta(7, 3, 6), state, state, x, x))
    plain = trace_complete(layer, ones(7, 3, 4))
    assert found == (plain.macs, plain.flops)


@pytest.mark.parametrize(("kind", "operator", "gates"), [("LSTM", "lstm", 4), ("GRU", "gru", 3)])
def test_fused_cells_and_their_products_are_the_whole_cell(kind: str, operator: str, gates: int) -> None:
    cell = getattr(nn, f"{kind}Cell")(4, 6)
    products = meta(2, gates * 6)
    args = (products, products, meta(2, 6), meta(gates * 6), meta(gates * 6))
    fused = price(getattr(aten, f"_thnn_fused_{operator}_cell").default, args, (meta(2, 6),) * 2)
    assert fused is not None
    plain = trace_complete(cell, ones(2, 4))
    macs = 2 * gates * 6 * (4 + 6)
    assert (plain.macs, plain.flops) == (macs, 2 * macs + fused.flops)


Q, KV = meta(2, 3, 4, 8), meta(2, 3, 5, 8)
SCORES = 2 * 3 * 4 * 5
STATE = meta(2, 3, 4)


@pytest.mark.parametrize(
    ("func", "args", "masked"),
    [
        (aten._scaled_dot_product_cudnn_attention, (Q, KV, KV, None, False), 0),
        (aten._scaled_dot_product_cudnn_attention, (Q, KV, KV, meta(4, 5), False), 1),
        (aten._scaled_dot_product_fused_attention_overrideable, (Q, KV, KV), 0),
        (aten._scaled_dot_product_attention_math_for_mps, (Q, KV, KV), 0),
        (aten._cudnn_attention_forward, (Q, KV, KV, None, None, None, 4, 5, False), 0),
    ],
)
def test_attention_of_every_library(func: Any, args: tuple[Any, ...], masked: int) -> None:
    assert price(func.default, args, (Q, STATE)) == (SCORES * 16, 2 * SCORES * 16 + (6 + masked) * SCORES)


def test_attention_with_the_heads_last() -> None:
    q, kv = meta(2, 4, 3, 8), meta(2, 5, 3, 8)
    expected = (SCORES * 16, 2 * SCORES * 16 + 6 * SCORES)
    flash = (q, kv, kv, None, None, 4, 5, 0.0, False, False)
    assert price(aten._flash_attention_forward.default, flash, (q, STATE)) == expected
    efficient = (q, kv, kv, None, None, None, None, None, 0.0, 0)
    assert price(aten._efficient_attention_forward.default, efficient, (q, STATE)) == expected


def test_samples_one_after_the_other_count_as_padded_to_the_longest() -> None:
    rows, starts = meta(9, 3, 8), torch.empty(3, dtype=torch.int32, device="meta")  # two samples
    scores = 2 * 3 * 5 * 5
    args = (rows, rows, rows, starts, starts, 5, 5, 0.0, False, False)
    found = price(aten._flash_attention_forward.default, args, (rows, STATE))
    assert found == (scores * 16, 2 * scores * 16 + 6 * scores)
    batched = meta(1, 9, 3, 8)
    efficient = (batched, batched, batched, None, starts, starts, 5, 5, 0.0, 0)
    assert price(aten._efficient_attention_forward.default, efficient, (batched, STATE)) == found
    pytest.importorskip("torch.nn.attention.varlen")
    causal = (rows, rows, rows, starts, starts, 5, 5, True)  # counted whole
    assert price(torch.ops.torch_attn._varlen_attn.default, causal, (rows, STATE, STATE)) == found


def test_the_fast_path_of_multi_head_attention_costs_what_the_layer_does() -> None:
    layer = nn.MultiheadAttention(6, 2, batch_first=True).eval()
    x, (w, b) = meta(2, 5, 6), (meta(18, 6), meta(18))
    for need_weights in (True, False):
        args = (x, x, x, 6, 2, w, b, meta(6, 6), meta(6), None, need_weights)
        plain = trace_complete(layer, *(ones(2, 5, 6),) * 3, need_weights=need_weights)
        assert price(aten._native_multi_head_attention.default, args, (x, x)) == (plain.macs, plain.flops)


BATCH_NORM = (meta(2, 3, 4), meta(3), meta(3), meta(3), meta(3))
ELEMENTS = 2 * 3 * 4


@pytest.mark.parametrize(
    ("func", "args", "per_element"),
    [
        (aten.cudnn_batch_norm, (*BATCH_NORM, True, 0.1, 1e-5), 7),
        (aten.cudnn_batch_norm, (*BATCH_NORM, False, 0.1, 1e-5), 2),
        (aten.miopen_batch_norm, (*BATCH_NORM, True, 0.1, 1e-5), 7),
        (aten._batch_norm_with_update, (*BATCH_NORM, 0.1, 1e-5), 7),
        (aten._batch_norm_no_update, (*BATCH_NORM, 0.1, 1e-5), 2),
        (aten.batch_norm_elemt, (*BATCH_NORM, 1e-5), 2),
        (aten.batch_norm_stats, (BATCH_NORM[0], 1e-5), 4),
    ],
)
def test_batch_norms_of_every_library(func: Any, args: tuple[Any, ...], per_element: int) -> None:
    assert price(func.default, args, (BATCH_NORM[0],) * 3) == (0, per_element * ELEMENTS)


def test_a_batch_norm_without_running_statistics_takes_those_of_the_batch() -> None:
    args = (*BATCH_NORM[:3], True, 0.1, 1e-5)
    assert price(aten._native_batch_norm_legit.no_stats, args, (BATCH_NORM[0],) * 3) == (0, 7 * ELEMENTS)


LOW = meta(8, 16)


@pytest.mark.parametrize(
    ("func", "args", "out"),
    [
        (aten._weight_int8pack_mm, (LOW, meta(4, 16), meta(4)), meta(8, 4)),
        (aten._weight_int4pack_mm, (LOW, meta(1, 1, 32, 4), 32, meta(1, 4, 2)), meta(8, 4)),
        (aten._dyn_quant_matmul_4bit, (LOW, meta(99), 32, 16, 4), meta(8, 4)),
        (aten._grouped_mm, (LOW, meta(3, 16, 4), meta(3)), meta(8, 4)),  # rows in groups
        (aten._grouped_mm, (meta(3, 8, 16), meta(16, 4), meta(3)), meta(8, 4)),  # columns in groups
        (aten._mixed_dtypes_linear, (LOW, meta(4, 16), meta(4)), meta(8, 4)),
    ],
)
def test_products_of_low_precision(func: Any, args: tuple[Any, ...], out: torch.Tensor) -> None:
    assert price(func.default, args, out) == (8 * 16 * 4, 2 * 8 * 16 * 4)


def test_products_by_group_of_transformers_cost_what_those_of_torch_do() -> None:
    """It brings operators of its own along for a torch that has none; the gradients are two products."""
    pytest.importorskip("transformers.integrations.moe")
    operators = torch.ops.transformers
    experts, ends = meta(3, 16, 4), meta(3)
    assert price(operators.grouped_mm_fallback.default, (LOW, experts, ends), meta(8, 4)) == (512, 1024)
    gradients = (LOW, experts, ends, meta(8, 4)), (LOW, experts)
    assert price(operators.grouped_mm_fallback_backward.default, *gradients) == (1024, 2048)


def test_a_batch_of_grouped_products_is_a_batch() -> None:
    assert price(aten._grouped_mm.default, (meta(3, 8, 16), meta(3, 16, 4)), meta(3, 8, 4)) == (1536, 3072)


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this release of torch has no such dtype")
@pytest.mark.parametrize("pairs", [8, 1])
def test_two_four_bit_numbers_in_one_element_are_two(pairs: int) -> None:
    """Rows of one pair have a stride of 1 in both dimensions."""
    a = torch.empty(8, pairs, dtype=torch.float4_e2m1fn_x2, device="meta")
    b = torch.empty(4, pairs, dtype=torch.float4_e2m1fn_x2, device="meta").t()
    scale, macs = meta(1), 8 * 2 * pairs * 4
    assert price(aten._scaled_mm.default, (a, b, scale, scale), meta(8, 4)) == (macs, 2 * macs)


def test_a_product_with_its_activation() -> None:
    found = cost(torch._addmm_activation, ones(4), ones(2, 3), ones(3, 4))
    assert found == (24, 48 + 2 * 8)
    gelu = cost(lambda b, x, w: torch._addmm_activation(b, x, w, use_gelu=True), ones(4), ones(2, 3), ones(3, 4))
    assert gelu == (24, 48 + 9 * 8)


def test_a_ctc_loss_goes_through_two_states_for_each_label_and_one_more() -> None:
    x = ones(10, 2, 5).log_softmax(2)
    args = x, torch.ones(2, 3, dtype=torch.int64), torch.tensor([10, 10]), torch.tensor([3, 3])
    found = cost(lambda x, y, steps, labels: F.ctc_loss(x, y, steps, labels, reduction="none"), *args)
    assert found[1] == 13 * 10 * 2 * (2 * 3 + 1)


@pytest.mark.parametrize(
    ("function", "inputs", "flops"),
    [
        (lambda x: F.soft_margin_loss(x, x), (ones(2, 3),), 6 * 6),
        (F.multi_margin_loss, (ones(2, 3), torch.tensor([0, 1])), 4 * 6),
        (lambda x, y: F.multi_margin_loss(x, y, p=2, weight=x[0]), (ones(2, 3), torch.tensor([0, 1])), 6 * 6),
        (lambda x: F.interpolate(x, (2, 2), mode="bilinear", antialias=True), (ones(1, 1, 4, 4),), 8 * 7 + 4 * 7),
        (lambda x: F.interpolate(x, (3, 3), mode="bicubic", antialias=True), (ones(1, 1, 2, 2),), 6 * 3 + 9 * 3),
        (torch.ops.prims.clone, (ones(2, 3),), 0),
        (lambda x: F.fractional_max_pool2d(x, 2, output_size=2), (ones(1, 3, 4, 4),), 3 * 4 * 4),
        (lambda x: torch.renorm(x, 2, 0, 1.0), (ones(2, 3),), 3 * 6),
        (lambda x: torch.polar(x, x), (ones(2, 3),), 4 * 6),
        (lambda x: torch.dist(x, x), (ones(2, 3),), 3 * 6),
        (lambda x: x.logcumsumexp(0), (ones(2, 3),), 4 * 6),
        (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255), (ones(2, 3),), 6 * 6),
    ],
)
def test_further_operators(function: Any, inputs: tuple[torch.Tensor, ...], flops: int) -> None:
    assert cost(function, *inputs) == (0, flops)


def test_an_embedding_with_a_largest_norm_scales_the_rows_that_are_looked_up() -> None:
    layer = nn.Embedding(10, 4, max_norm=1.0)
    assert trace_complete(layer, torch.tensor([1, 2, 2])).flops == 3 * (3 * 4)


@pytest.mark.parametrize(
    ("name", "kwargs", "per_element"),
    [
        ("_fused_adam_", {"weight_decay": 0.0, "amsgrad": False}, 12),
        ("_fused_adamw_", {"weight_decay": 0.1, "amsgrad": True}, 15),
        ("_fused_sgd_", {"weight_decay": 0.0, "momentum": 0.0, "nesterov": False}, 2),
        ("_fused_sgd_", {"weight_decay": 0.0, "momentum": 0.9, "nesterov": True}, 6),
        ("_fused_adagrad_", {"weight_decay": 0.0}, 7),
    ],
)
def test_optimisers_in_one_operator(name: str, kwargs: dict[str, Any], per_element: int) -> None:
    weights = [meta(2, 3), meta(4)]
    assert price(getattr(aten, name).default, (weights, weights), None, **kwargs) == (0, 10 * per_element)


def formula(name: str) -> Any:
    found = COSTS.get(name)
    assert found is not None, name
    return found


def test_a_deformable_convolution_samples_and_multiplies() -> None:
    """By name: torchvision is not needed for it. 2 x 4 channels, 3 x 3 kernels, 6 filters, 6 x 6 places."""
    x, weight, out = Shape((2, 4, 8, 8)), Shape((6, 4, 3, 3)), Shape((2, 6, 6, 6))
    settings = (1, 1, 0, 0, 1, 1, 1, 1, True)
    found = formula("torchvision::deform_conv2d")(x, weight, Shape(), Shape(), Shape((6,)), *settings, out=out)
    macs, sampled = out.numel * 4 * 9, 2 * 4 * 9 * 36
    assert found == (macs, 2 * macs + out.numel + 8 * sampled)


def test_regions_of_interest() -> None:
    align, nms = formula("torchvision::roi_align"), formula("torchvision::nms")
    out = Shape((3, 4, 7, 7))
    assert align(Shape((1, 4, 9, 9)), Shape((3, 5)), 1.0, 7, 7, 2, False, out=out) == (0, out.numel * 4 * 8)
    assert nms(Shape((5, 4)), Shape((5,)), 0.5, out=Shape((2,))) == (0, 12 * 10 + 3 * 5)


def test_a_product_with_scales_added_to_a_matrix() -> None:
    """Torch 2.15: ``(2, 4) + (2, 3) @ (3, 4)`` is 2 * 3 * 4 products and an addition for each of 8 elements."""
    formula = COSTS.get("aten::_scaled_addmm")
    assert formula is not None
    assert formula(Shape((2, 4)), Shape((2, 3)), Shape((3, 4)), [], [0], [0], [], [0], [0], out=Shape((2, 4))) == (
        24,
        56,
    )


def test_attention_of_cudnn_into_a_tensor_counts_as_that_of_flash_attention() -> None:
    """Torch 2.15: two sequences of at most 4 and 5 rows, 3 heads of 8: 2 * 3 * 4 * 5 scores, two products for each."""
    rows, starts = Shape((9, 3, 8)), Shape((3,))
    arguments = {"query": rows, "key": rows, "value": rows, "cum_seq_q": starts, "max_q": 4, "max_k": 5}
    flash, cudnn = (COSTS.get(f"aten::_{kind}_attention_forward_no_dropout_inplace") for kind in ("flash", "cudnn"))
    assert flash is not None
    assert cudnn is flash
    assert flash(**arguments, out=None).macs == 2 * (2 * 3 * 4 * 5) * 8


def test_attention_of_samples_has_one_formula_for_all_kernels_and_one_for_its_gradients() -> None:
    forward, gradient = (COSTS.get(f"aten::_flash_attention_{name}") for name in ("forward", "backward"))
    assert forward is not None
    assert gradient is not None
    for name in ("torch_attn::_varlen_attn", "torch_attn::_varlen_attn_out", "flash_attn::_flash_attn_varlen_forward"):
        assert COSTS.get(name) is forward
    assert COSTS.get("torch_attn::_varlen_attn_backward") is gradient
