"""Every cost formula, by numbers worked out by hand from the definition of the operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import cost, ones, trace_complete
from torch import nn

from profilerkit_torch.costs import families, registry

Function = Callable[..., Any]

INDEX = torch.tensor([0, 2])


def list_names() -> list[str]:
    return sorted(
        name for name in (*registry.COSTS, *families._free) if isinstance(name, str) and name.startswith("aten::")
    )


#: The release of torch that has every operator with a formula, but for those that came or went later.
DEVELOPED_WITH = (2, 13)
NEWER = frozenset(
    [
        "_cudnn_attention_forward_no_dropout_inplace",
        "_philox_randint",
        "_philox_randint_",
        "_scaled_addmm",
        "shallow_copy_data_",
    ]
)
GONE = frozenset(["cholesky"])  # in torch 2.14


def has_operator(name: str) -> bool:
    operator, _, overload = name.removeprefix("aten::").partition(".")
    packet = getattr(torch.ops.aten, operator, None)
    return packet is not None and (not overload or hasattr(packet, overload))


def test_every_registered_operator_exists() -> None:
    absent = {name.removeprefix("aten::").partition(".")[0] for name in list_names() if not has_operator(name)}
    release = tuple(map(int, torch.__version__.split(".")[:2]))
    if release < DEVELOPED_WITH:
        pytest.skip(f"torch {torch.__version__} does not have all of them yet")
    assert absent <= GONE | (NEWER if release < (2, 15) else frozenset())
    assert not absent & GONE or release > DEVELOPED_WITH


@pytest.mark.parametrize(
    ("function", "operations"),
    [
        (torch.add, 1),
        (partial(torch.add, alpha=2), 2),  # a factor of the second multiplies each of its elements
        (partial(torch.sub, alpha=2), 2),
        (partial(torch.rsub, alpha=0.5), 2),
        (lambda x, y: x.clone().add_(y, alpha=2), 2),
        (lambda x, y: torch.add(x, 3, alpha=2), 1),  # of a number it is multiplied once
        (lambda x, y: torch.sub(x, 3, alpha=2), 1),
        (lambda x, y: torch.rsub(x, 3, alpha=2), 2),  # 3 - 2 * x
        (lambda x, y: torch.rsub(x, 3), 1),
    ],
)
def test_a_sum_with_a_factor_takes_two_operations(function: Function, operations: int) -> None:
    assert cost(function, ones(3, 4), ones(3, 4)) == (0, 12 * operations)


# Matrix products: (function, inputs, MACs, FLOPs beyond two for each MAC).
PRODUCTS: dict[str, tuple[Function, tuple[torch.Tensor, ...], int, int]] = {
    "mm": (torch.mm, (ones(2, 3), ones(3, 4)), 2 * 3 * 4, 0),
    "matmul of matrices": (torch.matmul, (ones(2, 3), ones(3, 4)), 2 * 3 * 4, 0),
    "matmul in batches": (torch.matmul, (ones(5, 2, 3), ones(3, 4)), 5 * 2 * 3 * 4, 0),
    "matmul that broadcasts": (torch.matmul, (ones(6, 1, 2, 3), ones(5, 3, 4)), 6 * 5 * 2 * 3 * 4, 0),
    "bmm": (torch.bmm, (ones(5, 2, 3), ones(5, 3, 4)), 5 * 2 * 3 * 4, 0),
    "addmm": (torch.addmm, (ones(4), ones(2, 3), ones(3, 4)), 2 * 3 * 4, 2 * 4),
    "baddbmm": (torch.baddbmm, (ones(5, 2, 4), ones(5, 2, 3), ones(5, 3, 4)), 5 * 2 * 3 * 4, 5 * 2 * 4),
    # alpha scales each output element, beta each element that is added; what has the factor 0 is not added
    "addmm with factors": (
        partial(torch.addmm, alpha=0.5, beta=3),
        (ones(4), ones(2, 3), ones(3, 4)),
        2 * 3 * 4,
        2 * 4 + 4 + 2 * 4,
    ),
    "baddbmm that only scales": (
        partial(torch.baddbmm, alpha=0.5, beta=0),
        (ones(5, 2, 4), ones(5, 2, 3), ones(5, 3, 4)),
        5 * 2 * 3 * 4,
        5 * 2 * 4,
    ),
    "addmv with a factor": (partial(torch.addmv, alpha=2), (ones(2), ones(2, 3), ones(3)), 2 * 3, 2 + 2),
    "addbmm": (torch.addbmm, (ones(2, 4), ones(5, 2, 3), ones(5, 3, 4)), 5 * 2 * 3 * 4, 2 * 4),
    "linear": (F.linear, (ones(2, 3), ones(4, 3)), 2 * 3 * 4, 0),
    "linear with bias": (F.linear, (ones(2, 3), ones(4, 3), ones(4)), 2 * 3 * 4, 2 * 4),
    "linear of a sequence": (F.linear, (ones(2, 7, 3), ones(4, 3), ones(4)), 2 * 7 * 3 * 4, 2 * 7 * 4),
    "linear to a scalar": (F.linear, (ones(2, 3), ones(3)), 2 * 3, 0),
    "mv": (torch.mv, (ones(2, 3), ones(3)), 2 * 3, 0),
    "addmv": (torch.addmv, (ones(2), ones(2, 3), ones(3)), 2 * 3, 2),
    "dot": (torch.dot, (ones(3), ones(3)), 3, 0),
    "vdot": (torch.vdot, (ones(3), ones(3)), 3, 0),
    "addr": (torch.addr, (ones(2, 3), ones(2), ones(3)), 2 * 3, 0),
    "outer": (torch.outer, (ones(2), ones(3)), 0, 2 * 3),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=2), (ones(2, 3, 4), ones(3, 4, 5)), 2 * 3 * 4 * 5, 0),
    "bilinear": (F.bilinear, (ones(2, 3), ones(2, 4), ones(5, 3, 4)), 2 * 5 * 3 * 4, 2 * 5 * 3 * 4),
    "int8": (torch._int_mm, (ones(32, 16, dtype=torch.int8), ones(16, 8, dtype=torch.int8)), 32 * 16 * 8, 0),
    "addmm in place": (lambda y, a, b: y.clone().addmm_(a, b), (ones(2, 4), ones(2, 3), ones(3, 4)), 2 * 3 * 4, 2 * 4),
    "baddbmm in place": (
        lambda y, a, b: y.clone().baddbmm_(a, b),
        (ones(5, 2, 4), ones(5, 2, 3), ones(5, 3, 4)),
        5 * 2 * 3 * 4,
        5 * 2 * 4,
    ),
    "addbmm in place": (
        lambda y, a, b: y.clone().addbmm_(a, b),
        (ones(2, 4), ones(5, 2, 3), ones(5, 3, 4)),
        5 * 2 * 3 * 4,
        2 * 4,
    ),
    "addmv in place": (lambda y, a, x: y.clone().addmv_(a, x), (ones(2), ones(2, 3), ones(3)), 2 * 3, 2),
    # alpha scales the outer product, beta the six that are added; with a beta of 0 there are six products and no sum
    "addr with factors": (partial(torch.addr, alpha=0.5, beta=3), (ones(2, 3), ones(2), ones(3)), 2 * 3, 6 + 6),
    "addr that only scales": (partial(torch.addr, alpha=0.5, beta=0), (ones(2, 3), ones(2), ones(3)), 0, 6 + 6),
    "addr in place": (lambda y, a, x: y.clone().addr_(a, x), (ones(2, 3), ones(2), ones(3)), 2 * 3, 0),
    "distances by a product": (torch._euclidean_dist, (ones(2, 3), ones(4, 3)), 0, 3 * (2 * 4 * 3)),
    "cdist": (torch.cdist, (ones(2, 3), ones(4, 3)), 0, 3 * (2 * 4 * 3)),
    "pdist": (F.pdist, (ones(4, 3),), 0, 3 * (6 * 3)),  # four points make six pairs
}


@pytest.mark.parametrize("case", PRODUCTS)
def test_matrix_product(case: str) -> None:
    function, inputs, macs, further = PRODUCTS[case]
    assert cost(function, *inputs) == (macs, 2 * macs + further)


def test_product_of_scaled_eight_bit_floats() -> None:
    a, b = (torch.zeros(32, 16).to(torch.float8_e4m3fn) for _ in range(2))
    scale = torch.ones(())

    def product(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch._scaled_mm(a, b.t(), scale, scale, out_dtype=torch.bfloat16)

    assert cost(product, a, b, scale) == (32 * 16 * 32, 2 * 32 * 16 * 32)


def entropy(x: torch.Tensor, **options: Any) -> Any:
    return F.binary_cross_entropy(x, x, **options)


def logits_entropy(x: torch.Tensor, **options: Any) -> Any:
    return F.binary_cross_entropy_with_logits(x, x, **options)


# Operations for each element of six, from the definition.
PER_ELEMENT: dict[str, tuple[Function, int]] = {
    "relu": (F.relu, 1),
    "relu in place": (lambda x: F.relu(x.clone(), inplace=True), 1),
    "sigmoid": (torch.sigmoid, 1),
    "tanh": (torch.tanh, 1),
    "exp": (torch.exp, 1),
    "addition": (lambda x: x + 1, 1),
    "division by a tensor": (lambda x: x / x, 1),
    "clamp: two comparisons": (lambda x: x.clamp(0, 1), 2),
    "clamp from below: one": (lambda x: x.clamp(min=0), 1),
    "clamp from above: one": (lambda x: x.clamp(max=1), 1),
    "clamp by a tensor": (lambda x: x.clamp(max=x), 1),
    "logit: subtract, divide, log": (torch.logit, 3),
    "logit in place": (lambda x: x.clone().logit_(), 3),
    "logit of what is clamped: two comparisons more": (lambda x: torch.logit(x, 0.1), 5),
    "both ends: two comparisons": (torch.aminmax, 2),
    "variance by a primitive: as the operator": (lambda x: torch.ops.prims.var(x.flatten(), [0], 1), 4),
    "clip in place": (lambda x: x.clone().clip_(0, 1), 2),
    "clamp_min": (lambda x: x.clamp_min(0), 1),
    "celu: compare, exp, subtract, multiply": (F.celu, 4),
    "selu": (F.selu, 4),
    "frexp": (torch.frexp, 1),
    "normal of means: scale, shift": (lambda x: torch.normal(x, 1.0), 2),
    "normal of deviations": (lambda x: torch.normal(0.0, x), 2),
    "normal of both": (lambda x: torch.normal(x, x), 2),
    "mean of integers as floats": (lambda x: torch.mean(torch.arange(6), dtype=torch.float32), 1),
    "sum of comparisons as floats": (lambda x: (x > 0).sum(dtype=torch.float32), 1),
    "mean of comparisons": (lambda x: (x > 0).mean(dtype=torch.float32), 1),
    "cumulative sum of integers as floats": (lambda x: torch.arange(6).cumsum(0, dtype=torch.float32), 1),
    "cumsum in place": (lambda x: x.clone().cumsum_(0), 1),
    "cumprod in place": (lambda x: x.clone().cumprod_(0), 1),
    "bincount of weights": (lambda x: torch.bincount(torch.zeros(6, dtype=torch.int64), x.flatten()), 1),
    "histogram of weights": (lambda x: torch.histogram(x.flatten(), 3, weight=x.flatten()), 1),
    "over a list": (lambda x: torch._foreach_add([x[0], x[1]], 1.0), 1),
    "over two lists in place": (lambda x: torch._foreach_mul_([x[0].clone(), x[1].clone()], [x[0], x[1]]), 1),
    "over lists with a factor": (lambda x: torch._foreach_add([x], [x], alpha=2), 2),
    "over a list with a factor in place": (lambda x: torch._foreach_sub_([x.clone()], [x], alpha=2), 2),
    "a number to the power of a list": (lambda x: torch._foreach_pow(2.0, [x]), 1),
    "addition and relu": (lambda x: torch._add_relu(x, x), 2),
    "addition with a factor and relu": (lambda x: torch._add_relu(x, x, alpha=2), 3),
    "addition with a factor and relu in place": (lambda x: torch._add_relu_(x.clone(), x, alpha=2), 3),
    "addition of a number with a factor and relu": (lambda x: torch._add_relu(x, 3.0, 2), 2),
    "over three lists": (lambda x: torch._foreach_addcmul([x], [x], [x]), 3),
    "copied over lists": (lambda x: torch._foreach_copy_([x.clone()], [x]), 0),
    "hardtanh: two comparisons": (F.hardtanh, 2),
    "relu6: two comparisons": (F.relu6, 2),
    "hardshrink: abs": (F.hardshrink, 1),
    "softshrink: add, subtract": (F.softshrink, 2),
    "leaky relu: compare, multiply": (F.leaky_relu, 2),
    "leaky relu in place": (lambda x: F.leaky_relu(x.clone(), inplace=True), 2),
    "prelu: compare, multiply": (lambda x: F.prelu(x, torch.ones(1)), 2),
    "threshold: compare": (lambda x: F.threshold(x, 0.1, 0.0), 1),
    "rrelu in evaluation is a leaky relu": (F.rrelu, 2),
    "rrelu in training": (lambda x: F.rrelu(x, training=True), 2),
    "silu: sigmoid, multiply": (F.silu, 2),
    "silu in place": (lambda x: F.silu(x.clone(), inplace=True), 2),
    "softplus: exp, add, log": (F.softplus, 3),
    "log sigmoid: negate, softplus, negate": (F.logsigmoid, 5),
    "mish: softplus, tanh, multiply": (F.mish, 5),
    "hardsigmoid: add, two comparisons, divide": (F.hardsigmoid, 4),
    "hardswish: hardsigmoid, multiply": (F.hardswish, 5),
    "elu: compare, exp, subtract, multiply": (F.elu, 4),
    "gelu: divide, erf, add, two products": (F.gelu, 5),
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), 8),
    "addcmul: two products, add": (lambda x: x.addcmul(x, x), 3),
    "addcdiv": (lambda x: x.addcdiv(x, x), 3),
    "lerp: subtract, multiply, add": (lambda x: x.lerp(x, 0.5), 3),
    "floor_divide": (lambda x: x // 2, 1),
    "dropout that is on: mask, scale": (lambda x: F.dropout(x, 0.5, training=True), 2),
    "dropout that is off": (lambda x: F.dropout(x, 0.5, training=False), 0),
    "softmax": (lambda x: x.softmax(-1), 5),
    "log softmax": (lambda x: x.log_softmax(-1), 5),
    "sum": (torch.sum, 1),
    "mean": (lambda x: x.mean(0), 1),
    "maximum": (lambda x: x.amax(1), 1),
    "var: mean, subtract, square, add": (torch.var, 4),
    "std": (torch.std, 4),
    "var_mean": (torch.var_mean, 4),
    "std_mean": (torch.std_mean, 4),
    "norm: square, add": (torch.linalg.vector_norm, 2),
    "logsumexp: maximum, subtract, exp, add": (lambda x: x.logsumexp(0), 4),
    "cumsum": (lambda x: x.cumsum(0), 1),
    "cumprod": (lambda x: x.cumprod(0), 1),
    "cummax": (lambda x: x.cummax(0), 1),
    "cummin": (lambda x: x.cummin(0), 1),
    "mean squared error: subtract, square, add": (lambda x: F.mse_loss(x, x), 3),
    "squared errors: subtract, square": (lambda x: F.mse_loss(x, x, reduction="none"), 2),
    "huber: subtract, abs, compare, two products, add": (lambda x: F.huber_loss(x, x), 6),
    "smooth l1: subtract, abs, compare, two products, divide, add": (lambda x: F.smooth_l1_loss(x, x), 7),
    "smooth l1 of each": (lambda x: F.smooth_l1_loss(x, x, reduction="none"), 6),
    "cross entropy: two logs, two differences, two products, sum, minus, add": (entropy, 9),
    "cross entropy with weights": (lambda x: entropy(x, weight=x), 10),
    "cross entropy of logits: difference, product, log sigmoid, difference, add": (logits_entropy, 7),
    "batch norm with known statistics": (lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3)), 2),
    "batch norm in training": (lambda x: F.batch_norm(x, None, None, training=True), 5),
    "layer norm": (lambda x: F.layer_norm(x, (3,)), 5),
    "layer norm with weight and bias": (lambda x: F.layer_norm(x, (3,), ones(3), ones(3)), 7),
    "group norm with weight": (lambda x: F.group_norm(x, 3, ones(3)), 6),
    "instance norm": (lambda x: F.instance_norm(x[None]), 5),
}


@pytest.mark.parametrize("case", PER_ELEMENT)
def test_operations_for_each_element(case: str) -> None:
    function, operations = PER_ELEMENT[case]
    assert cost(function, ones(2, 3)) == (0, 6 * operations)


def test_rms_norm_squares_adds_and_scales_each_element_and_takes_two_operations_for_each_mean() -> None:
    """Two rows of three: each mean has an epsilon added, and its inverse root taken."""
    assert cost(lambda x: F.rms_norm(x, (3,)), ones(2, 3)) == (0, 6 * 3 + 2 * 2)
    assert cost(lambda x: F.rms_norm(x, (3,), ones(3)), ones(2, 3)) == (0, 6 * 4 + 2 * 2)


def test_glu_costs_a_sigmoid_and_a_product_for_each_output() -> None:
    assert cost(F.glu, ones(2, 8)) == (0, 2 * (2 * 4))


def test_weight_norm_squares_adds_and_scales_each_weight_and_divides_each_row() -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4, bias=False))
    found = trace_complete(layer, ones(2, 3))
    assert (found.macs, found.flops) == (2 * 3 * 4, 2 * (2 * 3 * 4) + 3 * (4 * 3) + 4)


# What goes into each output element: pooling windows, neighbours, accumulated sources.
WINDOWS: dict[str, tuple[Function, tuple[torch.Tensor, ...], int]] = {
    "max pool 1d": (lambda x: F.max_pool1d(x, 2), (ones(1, 3, 8),), 3 * 4 * 2),
    "max pool 2d": (lambda x: F.max_pool2d(x, 2), (ones(1, 3, 4, 4),), 3 * 4 * 4),
    "max pool 2d with stride": (lambda x: F.max_pool2d(x, 3, stride=1), (ones(1, 1, 4, 4),), 4 * 9),
    "max pool 2d with indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), (ones(1, 3, 4, 4),), 3 * 4 * 4),
    "max pool 3d": (lambda x: F.max_pool3d(x, 2), (ones(1, 1, 4, 4, 4),), 8 * 8),
    "average pool 1d": (lambda x: F.avg_pool1d(x, 2), (ones(1, 3, 8),), 3 * 4 * 2),
    "average pool 2d of a flat window": (lambda x: F.avg_pool2d(x, (1, 2)), (ones(1, 1, 4, 4),), 8 * 2),
    "average pool 3d": (lambda x: F.avg_pool3d(x, 2), (ones(1, 1, 4, 4, 4),), 8 * 8),
    "adaptive to one": (lambda x: F.adaptive_avg_pool2d(x, 1), (ones(2, 3, 4, 4),), 2 * 3 * 16),
    # Three windows over a length of 4 cover 0-1, 1-2 and 2-3: two elements each.
    "adaptive with overlap": (lambda x: F.adaptive_avg_pool1d(x, 3), (ones(1, 2, 4),), 2 * (2 + 2 + 2)),
    "adaptive in two dimensions": (lambda x: F.adaptive_max_pool2d(x, (2, 3)), (ones(1, 1, 4, 4),), (2 + 2) * 6),
    "adaptive max 1d": (lambda x: F.adaptive_max_pool1d(x, 2), (ones(1, 1, 4),), 4),
    "adaptive in three dimensions": (lambda x: F.adaptive_avg_pool3d(x, 1), (ones(1, 2, 2, 2, 2),), 2 * 8),
    "linear upsampling": (lambda x: F.interpolate(x, 8, mode="linear"), (ones(1, 1, 4),), 8 * 3),
    "bilinear upsampling": (lambda x: F.interpolate(x, (8, 8), mode="bilinear"), (ones(1, 1, 4, 4),), 64 * 7),
    "bicubic upsampling": (lambda x: F.interpolate(x, (8, 8), mode="bicubic"), (ones(1, 1, 4, 4),), 64 * 31),
    "trilinear upsampling": (lambda x: F.interpolate(x, (4, 4, 4), mode="trilinear"), (ones(1, 1, 2, 2, 2),), 64 * 15),
    "nearest upsampling": (lambda x: F.interpolate(x, (8, 8)), (ones(1, 1, 4, 4),), 0),
    "grid sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        (ones(1, 2, 4, 4), ones(1, 3, 3, 2)),
        18 * 7,
    ),
    "grid sample, nearest": (
        lambda x, g: F.grid_sample(x, g, mode="nearest", align_corners=False),
        (ones(1, 2, 4, 4), ones(1, 3, 3, 2)),
        0,
    ),
    "grid sample, cubic": (
        lambda x, g: F.grid_sample(x, g, mode="bicubic", align_corners=False),
        (ones(1, 2, 4, 4), ones(1, 3, 3, 2)),
        18 * 31,
    ),
    "grid sample 3d": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        (ones(1, 1, 2, 2, 2), ones(1, 2, 2, 2, 3)),
        8 * 15,
    ),
    "embedding bag": (F.embedding_bag, (torch.zeros(2, 3, dtype=torch.int64), ones(5, 4)), 2 * 3 * 4),
    "fold": (lambda x: F.fold(x, (3, 3), 2), (ones(1, 4, 4),), 16),
    "index_add": (lambda x, y: x.index_add(0, INDEX, y), (ones(5, 4), ones(2, 4)), 8),
    "index_add with a factor": (lambda x, y: x.index_add(0, INDEX, y, alpha=2), (ones(5, 4), ones(2, 4)), 8 + 8),
    "index_add in place": (lambda x, y: x.index_add_(0, INDEX, y), (ones(5, 4), ones(2, 4)), 8),
    "index_reduce": (lambda x, y: x.index_reduce(0, INDEX, y, "prod"), (ones(5, 4), ones(2, 4)), 8),
    "scatter_add": (lambda x, y: x.scatter_add(0, INDEX[:, None].expand(2, 4), y), (ones(5, 4), ones(2, 4)), 8),
    "scatter_reduce": (
        lambda x, y: x.scatter_reduce(0, INDEX[:, None].expand(2, 4), y, "amax"),
        (ones(5, 4), ones(2, 4)),
        8,
    ),
    "index_put that accumulates": (
        lambda x, y: x.index_put_((INDEX,), y, accumulate=True),
        (ones(5, 4), ones(2, 4)),
        8,
    ),
    "index_put that replaces": (lambda x, y: x.index_put_((INDEX,), y), (ones(5, 4), ones(2, 4)), 0),
    "negative log-likelihood": (F.nll_loss, (ones(2, 4), torch.zeros(2, dtype=torch.int64)), 2),
    "nll of images": (F.nll_loss, (ones(2, 4, 3, 3), torch.zeros(2, 3, 3, dtype=torch.int64)), 18),
}


SCATTERED: dict[str, tuple[Function, int]] = {
    "added": (lambda x: x.scatter(0, INDEX, x, reduce="add"), 2),
    "multiplied": (lambda x: x.scatter(0, INDEX, 2.0, reduce="multiply"), 2),
    "added in place": (lambda x: x.clone().scatter_(0, INDEX, x, reduce="add"), 2),
    "multiplied in place": (lambda x: x.clone().scatter_(0, INDEX, 2.0, reduce="multiply"), 2),
    "from a larger source": (lambda x: x.scatter_add(0, INDEX, x), 2),
    "put": (lambda x: x.clone().put_(INDEX, x[:2], accumulate=True), 2),
    "unsafe index": (lambda x: torch.ops.aten._unsafe_index_put(x, [INDEX], x[:2], True), 2),
}


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
@pytest.mark.parametrize("case", SCATTERED)
def test_two_indices_bring_in_two_of_five_elements(case: str) -> None:
    function, flops = SCATTERED[case]
    assert cost(function, ones(5)) == (0, flops)


def test_the_trace_adds_up_a_diagonal() -> None:
    assert cost(torch.trace, ones(3, 5)) == (0, 3)


def test_positives_that_weigh_more_cost_a_product_and_their_weights() -> None:
    """Subtract one from each of three weights; for each of six elements as without (7), and multiply, add, multiply."""
    assert cost(lambda x, w: logits_entropy(x, pos_weight=w), ones(2, 3), ones(3)) == (0, 6 * (7 + 3) + 3)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantising_scales_rounds_and_clamps_and_going_back_subtracts_and_multiplies() -> None:
    def quantised(x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)

    assert cost(quantised, ones(2, 3)) == (0, 6 * 4)
    assert cost(lambda x: quantised(x).dequantize(), ones(2, 3)) == (0, 6 * (4 + 2))


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("case", WINDOWS)
def test_operations_for_each_window_or_source(case: str) -> None:
    function, inputs, flops = WINDOWS[case]
    assert cost(function, *inputs) == (0, flops)


def test_affine_grid_multiplies_each_point_by_a_matrix() -> None:
    macs = (2 * 3) * (2 * 3)  # six points, each with a 1 added, by a 2 x 3 matrix
    assert cost(lambda t: F.affine_grid(t, [1, 1, 2, 3], align_corners=False), ones(1, 2, 3)) == (macs, 2 * macs)


@pytest.mark.parametrize(
    ("function", "x", "flops"),
    [
        (torch.fft.fft, ones(2, 8, dtype=torch.complex64), 2 * 5 * 8 * 3),
        (torch.fft.rfft, ones(2, 8), 2 * 5 * 8 * 3 // 2),
        (lambda z: torch.fft.irfft(z, n=8), ones(2, 5, dtype=torch.complex64), 2 * 5 * 8 * 3 // 2),
        (torch.fft.fft2, ones(4, 4, dtype=torch.complex64), 5 * 16 * 4),
    ],
    ids=["fft", "rfft", "irfft", "fft2"],
)
def test_fourier_transform(function: Function, x: torch.Tensor, flops: int) -> None:
    assert cost(function, x) == (0, flops)


MOVES: dict[str, Function] = {
    "view": lambda x: x.view(3, 2),
    "transpose and copy": lambda x: x.t().contiguous(),
    "reshape that copies": lambda x: x.t().reshape(6),
    "cast": lambda x: x.to(torch.float64),
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x]),
    "pad": lambda x: F.pad(x, (1, 1)),
    "roll": lambda x: x.roll(1, 0),
    "flip": lambda x: x.flip(0),
    "index": lambda x: x[:, INDEX],
    "gather": lambda x: x.gather(1, torch.zeros(2, 1, dtype=torch.int64)),
    "where": lambda x: torch.where(x > 0, x, x),
    "masked fill": lambda x: x.masked_fill(x > 0, 0.0),
    "topk": lambda x: x.topk(2),
    "argmax": lambda x: x.argmax(1),
    "one-hot": lambda x: F.one_hot(torch.zeros(2, dtype=torch.int64), 4),
    "new tensors": lambda x: (torch.zeros_like(x), x.new_ones(3), torch.randn(3), torch.arange(3)),
    "views in place": lambda x: x.clone().unsqueeze_(0).squeeze_(0).t_(),
    "chunk": lambda x: x.chunk(3, dim=1),
    "integer arithmetic": lambda x: torch.arange(6) + 1,
    "integers clamped": lambda x: torch.arange(6).clamp(1, 3),
    "integers divided": lambda x: torch.arange(6) // 2,
    "integers summed up": lambda x: (torch.arange(6).cumsum(0), torch.arange(6).sum()),
    "integers scattered": lambda x: torch.zeros(3, dtype=torch.int64).scatter_add(0, INDEX, torch.ones_like(INDEX)),
    "integers over a list": lambda x: torch._foreach_add([torch.arange(6)], 1),
    "counts": lambda x: torch.bincount(torch.arange(6)),
    "histogram": lambda x: torch.histogram(x.flatten(), 3),
    "scatter": lambda x: x.scatter(1, torch.zeros(2, 1, dtype=torch.int64), x),
    "masked scatter in place": lambda x: x.clone().masked_scatter_(x > 0, x),
    "put": lambda x: x.clone().put_(INDEX, x[0, :2]),
    "unsafe index": lambda x: torch.ops.aten._unsafe_index(x, [None, INDEX]),
    "triangles in place": lambda x: (x.clone().tril_(), x.clone().triu_()),
    "comparison": lambda x: x > 0,
    "tril": lambda x: x.tril(),
    "embedding": lambda x: F.embedding(torch.zeros(2, dtype=torch.int64), x),
    "pixel shuffle": lambda x: F.pixel_shuffle(x.new_ones(1, 4, 2, 2), 2),
    "unfold": lambda x: F.unfold(x.new_ones(1, 1, 3, 3), 2),
}


@pytest.mark.parametrize("case", MOVES)
def test_moving_choosing_and_making_data_costs_nothing(case: str) -> None:
    assert cost(MOVES[case], ones(2, 3)) == (0, 0)


def test_an_output_that_is_given_costs_nothing_more() -> None:
    def into(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.mm(x, y, out=torch.empty(2, 4))

    assert cost(into, ones(2, 3), ones(3, 4)) == (2 * 3 * 4, 2 * 2 * 3 * 4)
    assert cost(lambda x: torch.add(x, x, out=torch.empty(2, 3)), ones(2, 3)) == (0, 6)


def test_outputs_that_are_given_by_other_names_cost_nothing_more() -> None:
    """``torch.linalg.qr`` writes to ``Q`` and ``R``."""

    def decompose_into(x: torch.Tensor) -> Any:
        return torch.linalg.qr(x, out=(torch.empty(0), torch.empty(0)))

    assert cost(decompose_into, ones(5, 4)) == cost(torch.linalg.qr, ones(5, 4))


def test_counts_are_whole_numbers_of_any_size() -> None:
    with torch.device("meta"):
        layer = nn.Linear(2**20, 2**20, bias=False)
        x = torch.empty(2**24, 2**20)
    assert trace_complete(layer, x).macs == 2**64
    assert math.log2(trace_complete(layer, x).flops) == 65
