"""What the gradients of products cost, by closed forms and numbers worked out by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gradients import backward, call_operator, empty, gradient
from tiny import ones
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from profilerkit_torch.costs import Kind, classify

BOTH = [True, True]
ALL = [True, True, True]


def test_a_linear_layer_has_two_products_and_the_sum_of_its_bias() -> None:
    x, weight, bias = ones(3, 4), ones(5, 4), ones(5)
    product = 3 * 4 * 5
    assert gradient(F.linear, x, weight, bias) == (2 * product, 4 * product + 3 * 5)
    assert gradient(F.linear, x, weight, bias, frozen=(0,)) == (product, 2 * product + 3 * 5), "the first layer"
    assert gradient(F.linear, x, weight, bias, frozen=(1, 2)) == (product, 2 * product), "a frozen layer"


@pytest.mark.parametrize(
    ("function", "shapes", "macs"),
    [
        (torch.matmul, ((3, 4), (4, 5)), 2 * 3 * 4 * 5),
        (torch.matmul, ((2, 3, 4), (2, 4, 5)), 2 * 2 * 3 * 4 * 5),
        (lambda a, b: torch.einsum("bij,bkj->bik", a, b), ((2, 3, 4), (2, 5, 4)), 2 * 2 * 3 * 4 * 5),
        (torch.addmm, ((3, 5), (3, 4), (4, 5)), 2 * 3 * 4 * 5),
        (torch.baddbmm, ((2, 3, 5), (2, 3, 4), (2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    ],
)
def test_a_product_has_two(function: Any, shapes: tuple[tuple[int, ...], ...], macs: int) -> None:
    assert gradient(function, *(ones(*shape) for shape in shapes)) == (macs, 2 * macs)


def test_linear_layers_of_other_devices() -> None:
    x, dy, weight = empty(3, 4), empty(3, 5), empty(5, 4)
    out = (x, weight, empty(5))
    given: dict[str, Any] = {"self": x, "grad_output": dy, "weight": weight}
    assert call_operator("linear_backward", out, **given, output_mask=ALL) == (120, 240 + 15)
    assert call_operator("mkldnn_linear_backward", out, **given, output_mask=[False, True, False]) == (60, 120)
    assert call_operator("mkldnn_linear_backward_input", x, grad_output=dy, weight=weight) == (60, 120)
    by_weight = call_operator(
        "mkldnn_linear_backward_weights", out, grad_output=dy, input=x, weight=weight, bias_defined=True
    )
    assert by_weight == (60, 120 + 15)


def test_a_matmul_of_nested_tensors() -> None:
    assert call_operator(
        "matmul_backward", empty(1), grad=empty(3, 5), self=empty(3, 4), other=empty(4, 5), mask=BOTH
    ) == (
        2 * 60,
        4 * 60,
    )


def test_products_of_a_sparse_matrix() -> None:
    """3 stored elements meet 5 columns, for each of two gradients."""
    sparse = torch.eye(3).to_sparse()
    given = {"self": sparse, "grad_out": ones(3, 5), "weight": ones(3, 5), "output_mask": BOTH}
    assert call_operator("_sparse_mm_reduce_impl_backward", (sparse, ones(3, 5)), **given) == (2 * 3 * 5, 4 * 3 * 5)


# Convolutions: function, input, weight, MACs of the forward pass, output elements.
CONVOLUTIONS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], int, int]] = {
    "1d": (F.conv1d, (2, 3, 8), (4, 3, 3), 2 * 6 * 4 * 9, 2 * 6 * 4),
    "2d": (F.conv2d, (1, 2, 5, 5), (3, 2, 3, 3), 27 * 18, 27),
    "3d": (F.conv3d, (1, 2, 4, 4, 4), (3, 2, 2, 2, 2), 27 * 3 * 16, 27 * 3),
    "strided": (partial(F.conv2d, stride=2), (1, 2, 7, 7), (3, 2, 3, 3), 27 * 18, 27),
    "dilated": (partial(F.conv2d, dilation=2), (1, 2, 7, 7), (3, 2, 3, 3), 27 * 18, 27),
    "padded": (partial(F.conv2d, padding=1), (1, 2, 3, 3), (3, 2, 3, 3), 27 * 18, 27),
    "grouped": (partial(F.conv2d, groups=2), (1, 4, 5, 5), (6, 2, 3, 3), 54 * 18, 54),
    "depthwise": (partial(F.conv2d, groups=4), (1, 4, 5, 5), (4, 1, 3, 3), 36 * 9, 36),
    "transposed": (F.conv_transpose2d, (1, 2, 5, 5), (2, 3, 3, 3), 50 * 27, 3 * 49),
    "transposed in groups": (
        partial(F.conv_transpose2d, stride=2, groups=2),
        (1, 4, 3, 3),
        (4, 3, 2, 2),
        36 * 12,
        6 * 36,
    ),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_each_gradient_of_a_convolution_costs_as_much_as_the_convolution(case: str) -> None:
    function, x, weight, forward, outputs = CONVOLUTIONS[case]
    channels = outputs // (function(ones(*x), ones(*weight)).numel() // function(ones(*x), ones(*weight)).shape[1])
    tensors = ones(*x), ones(*weight), ones(channels)
    assert gradient(function, *tensors) == (2 * forward, 4 * forward + outputs)
    assert gradient(function, *tensors, frozen=(0,)) == (forward, 2 * forward + outputs), "the first layer"
    assert gradient(function, *tensors, frozen=(1, 2)) == (forward, 2 * forward), "a frozen layer"


@pytest.mark.parametrize("case", ["1d", "2d", "3d", "strided", "dilated", "padded", "transposed"])
def test_torch_counts_the_gradients_of_convolutions_alike(case: str) -> None:
    """But for groups: torch 2.13 counts the gradient of a grouped weight as if there were none."""
    function, x, weight, forward, _ = CONVOLUTIONS[case]
    tensors = [ones(*shape).requires_grad_(True) for shape in (x, weight)]
    total = function(*tensors).sum()
    with FlopCounterMode(display=False) as counter:
        torch.autograd.grad(total, tensors)
    assert counter.get_total_flops() == 4 * forward


def test_convolutions_of_other_devices() -> None:
    x, weight, dy = empty(1, 2, 5, 5), empty(3, 2, 3, 3), empty(1, 3, 3, 3)
    out = (x, weight, empty(3))
    given: dict[str, Any] = {"grad_output": dy, "self": x, "weight": weight, "output_mask": ALL}
    expected = (2 * 27 * 18, 4 * 27 * 18 + 27)
    assert call_operator("_slow_conv2d_backward.output_mask", out, **given) == expected
    assert call_operator("mps_convolution_backward", out, **given) == expected
    given["input"] = given.pop("self")
    assert call_operator("convolution_backward_overrideable", out, **given, transposed=False) == expected

    weight, dy = empty(2, 3, 3, 3), empty(1, 3, 7, 7)
    given = {"grad_output": dy, "weight": weight}
    transposed = call_operator("mps_convolution_transpose_backward", out, **given, self=x, output_mask=BOTH)
    assert transposed == (2 * 50 * 27, 4 * 50 * 27)
    given |= {"input": x, "transposed": True, "output_mask": ALL}
    assert call_operator("convolution_backward_overrideable", out, **given) == (2 * 50 * 27, 4 * 50 * 27 + 3 * 49)


# Attention ----------------------------------------------------------------------------------------------------------

#: Queries, keys and values of 2 * 4 heads: 6 queries and 5 keys of width 8.
QUERY, KEY = (2, 4, 6, 8), (2, 4, 5, 8)
SCORES = 2 * 4 * 6 * 5
#: Four products, the softmax (4) and the scale (1).
ATTENTION = (2 * SCORES * 16, 4 * SCORES * 16 + 5 * SCORES)


def spelt_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT * 8**-0.5).softmax(-1) @ v


def test_attention_spelt_out() -> None:
    assert gradient(spelt_out, ones(*QUERY), ones(*KEY), ones(*KEY)) == ATTENTION


def test_attention_of_the_cpu_costs_the_same() -> None:
    found = backward(F.scaled_dot_product_attention, ones(*QUERY), ones(*KEY), ones(*KEY), device="cpu")
    assert "aten::_scaled_dot_product_flash_attention_for_cpu_backward" in found.operators
    assert tuple(found.cost) == ATTENTION


def test_attention_by_the_formula_has_as_many_multiply_accumulates() -> None:
    found = backward(F.scaled_dot_product_attention, ones(*QUERY), ones(*KEY), ones(*KEY))
    assert "aten::_softmax_backward_data" in found.operators
    assert found.cost.macs == ATTENTION[0]


@pytest.mark.parametrize("kernel", ["cudnn", "efficient", "flash", "flash_for_cpu", "fused_overrideable"])
def test_attention_of_every_kernel_costs_the_same(kernel: str) -> None:
    family, _, rest = kernel.partition("_")
    middle = {"for_cpu": "flash_attention_for_cpu", "overrideable": "fused_attention_overrideable"}.get(rest)
    name = f"_scaled_dot_product_{middle or f'{family}_attention'}_backward"
    dy = "grad_out_" if kernel == "efficient" else "grad_out"
    given = {dy: empty(*QUERY), "query": empty(*QUERY), "key": empty(*KEY), "value": empty(*KEY)}
    assert call_operator(name, (empty(*QUERY), empty(*KEY), empty(*KEY)), **given) == ATTENTION


def test_values_may_be_of_another_width() -> None:
    given = {"grad_out": empty(2, 4, 6, 3), "query": empty(*QUERY), "key": empty(*KEY), "value": empty(2, 4, 5, 3)}
    found = call_operator("_scaled_dot_product_cudnn_attention_backward", empty(*QUERY), **given)
    assert found == (2 * SCORES * 11, 4 * SCORES * 11 + 5 * SCORES)


def test_grouped_queries_count_as_if_each_had_keys_of_its_own() -> None:
    found = gradient(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        *(ones(1, 4, 6, 8), ones(1, 2, 6, 8), ones(1, 2, 6, 8)),
        device="cpu",
    )
    scores = 4 * 6 * 6
    assert found[0] == 2 * scores * 16


KERNELS = {
    "_flash_attention_backward": ("grad_out", "cum_seq_q", "max_q", "max_k"),
    "_efficient_attention_backward": ("grad_out_", "cu_seqlens_q", "max_seqlen_q", "max_seqlen_k"),
    "_cudnn_attention_backward": ("grad_out", "cum_seq_q", "max_q", "max_k"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_below_attention(name: str) -> None:
    """They are called by themselves for packed sequences: here two, of at most 6 queries and 5 keys each."""
    if not hasattr(torch.ops.aten, name):
        pytest.skip("this release of torch has no such kernel")
    dy, starts, longest, longest_key = KERNELS[name]
    packed = {dy: empty(9, 4, 8), "query": empty(9, 4, 8), "key": empty(7, 4, 8), "value": empty(7, 4, 8)}
    given = {**packed, starts: empty(3), longest: 6, longest_key: 5}
    assert call_operator(name, (empty(9, 4, 8), empty(7, 4, 8), empty(7, 4, 8)), **given) == ATTENTION

    heads_last = not name.startswith("_cudnn")
    query, key = (empty(2, 6, 4, 8), empty(2, 5, 4, 8)) if heads_last else (empty(*QUERY), empty(*KEY))
    padded = {dy: query, "query": query, "key": key, "value": key, longest: 6, longest_key: 5}
    assert call_operator(name, (query, key, key), **padded) == ATTENTION


# Recurrent layers ---------------------------------------------------------------------------------------------------

#: 5 steps of 2 samples of 3 features, 4 units; matrices of gates * 4 rows.
STEPS, SAMPLES, FEATURES, UNITS = 5, 2, 3, 4
POSITIONS = STEPS * SAMPLES
KINDS = {"rnn": (1, 2, 1), "lstm": (4, 13, 2), "gru": (3, 11, 3)}  # gates, operations for each unit, torch's number


def make_weights(gates: int, features: int = FEATURES) -> list[torch.Tensor]:
    rows = gates * UNITS
    return [empty(rows, features), empty(rows, UNITS), empty(rows), empty(rows)]


def whole_gradient(kind: str) -> tuple[int, int]:
    """Return what all gradients of one layer cost: two forward passes of products; gates and biases once."""
    gates, unit_flops, _ = KINDS[kind]
    macs = 2 * POSITIONS * gates * UNITS * (FEATURES + UNITS)
    return macs, 2 * macs + POSITIONS * (UNITS * unit_flops + 2 * gates * UNITS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["_cudnn_rnn_backward", "miopen_rnn_backward"])
def test_recurrent_layers_in_one_operator(name: str, kind: str) -> None:
    gates, _, mode = KINDS[kind]
    given: dict[str, Any] = {
        "input": empty(STEPS, SAMPLES, FEATURES),
        "weight": make_weights(gates),
        "weight_stride0": 4,
        "hx": empty(1, SAMPLES, UNITS),
        "mode": mode,
        "hidden_size": UNITS,
        "num_layers": 1,
        "bidirectional": False,
    }
    out = (given["input"], given["hx"], None, given["weight"])
    macs, flops = whole_gradient(kind)
    assert call_operator(name, out, **given, output_mask=[True] * 4) == (macs, flops)
    of_input, of_state = POSITIONS * gates * UNITS * FEATURES, SAMPLES * gates * UNITS * UNITS
    less = of_input + of_state
    assert call_operator(name, out, **given, output_mask=[False, False, False, True]) == (macs - less, flops - 2 * less)
    of_weights = macs // 2
    frozen = call_operator(name, out, **given, output_mask=[True, True, True, False])
    assert frozen == (of_weights, flops - 2 * of_weights - POSITIONS * 2 * gates * UNITS)


def test_recurrent_layers_above_others_and_in_both_directions() -> None:
    """Two layers in two directions: the upper one's input is 8 wide, and its gradient always wanted."""
    weights = [*make_weights(4), *make_weights(4), *make_weights(4, 8), *make_weights(4, 8)]
    found = call_operator(
        "_cudnn_rnn_backward",
        (empty(1),),
        input=empty(STEPS, SAMPLES, FEATURES),
        weight=weights,
        weight_stride0=4,
        hx=empty(4, SAMPLES, UNITS),
        mode=2,
        hidden_size=UNITS,
        bidirectional=True,
        output_mask=[False, True, True, True],
    )
    forward = POSITIONS * 2 * 16 * ((3 + 4) + (8 + 4))
    macs = 2 * forward - POSITIONS * 2 * 16 * 3
    assert found == (macs, 2 * macs + POSITIONS * 4 * (4 * 13 + 2 * 16))


@pytest.mark.parametrize(("kind", "layer"), [("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)])
def test_recurrent_layers_spelt_out_have_as_many_multiply_accumulates(kind: str, layer: Any) -> None:
    """Torch spells them out on meta tensors: the zeros that the first state is made of need no gradient."""
    module = layer(FEATURES, UNITS).to("meta")
    names = [name for name, _ in module.named_parameters()]

    def run(x: torch.Tensor, *weights: torch.Tensor) -> Any:
        return torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (x,))[0]

    macs, _ = gradient(run, ones(STEPS, SAMPLES, FEATURES), *module.parameters())
    assert macs == whole_gradient(kind)[0] - SAMPLES * KINDS[kind][0] * UNITS * UNITS


def test_recurrent_layers_of_the_cpu() -> None:
    x, hx = empty(STEPS, SAMPLES, FEATURES), empty(1, SAMPLES, UNITS)
    weights = dict(zip(("weight1", "weight2", "weight3", "weight4"), make_weights(4), strict=True))
    given: dict[str, Any] = {"input": x, "hx_": hx, "mode": 2, "hidden_size": UNITS}
    whole = call_operator("mkldnn_rnn_layer_backward", (x,), **given, **weights, has_biases=True)
    assert whole == whole_gradient("lstm")
    macs, flops = whole
    without = call_operator("mkldnn_rnn_layer_backward", (x,), **given, **weights, has_biases=False)
    assert without == (macs, flops - POSITIONS * 2 * 4 * UNITS)


def test_an_lstm_of_apples_devices() -> None:
    hx = [empty(1, SAMPLES, UNITS)] * 2
    x = empty(STEPS, SAMPLES, FEATURES)
    assert call_operator("lstm_mps_backward", (x,), input=x, hx=hx, params=make_weights(4)) == whole_gradient("lstm")


def test_cells() -> None:
    state, gates = empty(SAMPLES, UNITS), empty(SAMPLES, 4 * UNITS)
    given: dict[str, Any] = {"cx": state, "cy": state, "workspace": gates, "grad_hy": state}
    out = (gates, state, None)
    assert call_operator("_thnn_fused_lstm_cell_backward_impl", out, **given, has_bias=False) == (0, 8 * 11)
    both = call_operator("_thnn_fused_lstm_cell_backward_impl", out, **given, grad_cy=state, has_bias=True)
    assert both == (0, 8 * 12 + 8 * 4)
    assert call_operator("_thnn_fused_gru_cell_backward", out, grad_hy=state, has_bias=False) == (0, 8 * 9)
    assert call_operator("_thnn_fused_gru_cell_backward", out, grad_hy=state, has_bias=True) == (0, 8 * 15)


# Distances and grids ------------------------------------------------------------------------------------------------


def test_distances() -> None:
    """2 * 4 pairs of points of 3 coordinates, for each of the two gradients; four points make six pairs."""
    assert gradient(torch.cdist, ones(2, 3), ones(4, 3)) == (0, 2 * 8 * (3 * 3 + 1))
    assert gradient(F.pdist, ones(4, 3)) == (0, 6 * (4 * 3 + 1))


def test_grids() -> None:
    """5 x 6 points of 2 coordinates from 3: cuDNN's operator, and the product that others make of it."""
    found = call_operator("cudnn_affine_grid_generator_backward", empty(1, 2, 3), grad=empty(1, 5, 6, 2))
    assert found == (5 * 6 * 2 * 3, 2 * 5 * 6 * 2 * 3)
    grid = partial(F.affine_grid, size=[1, 1, 5, 6], align_corners=False)
    assert gradient(grid, ones(1, 2, 3))[0] == found[0]


# Every operator -----------------------------------------------------------------------------------------------------

#: What no formula of shapes can tell, each with its reason.
UNKNOWN = {
    "multilabel_margin_loss_backward": "how many pairs of labels there are is in the targets' values",
    "glu_backward_jvp": "a derivative of the gradient in forward mode; no backward pass runs it",
}


def backward_operators() -> list[Any]:
    """Return every operator of aten that computes a gradient, without the forms that write to given outputs."""
    found = []
    for schema in torch._C._jit_get_all_schemas():
        name, overload = schema.name, schema.overload_name
        exists = torch._C._dispatch_has_kernel(f"{name}.{overload}" if overload else name)
        if name.startswith("aten::") and "backward" in name and exists and not any(a.is_out for a in schema.arguments):
            found.append(getattr(getattr(torch.ops.aten, name.removeprefix("aten::")), overload or "default"))
    return found


def test_every_operator_that_computes_a_gradient_is_known_or_unknown_for_a_reason() -> None:
    operators = backward_operators()
    assert len(operators) > 140
    unknown = {func._schema.name.removeprefix("aten::") for func in operators if classify(func) is Kind.UNKNOWN}
    assert unknown == set(UNKNOWN)
