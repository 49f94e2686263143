"""What the gradients of layers without products cost, by numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gradients import backward, call_operator, empty, gradient
from tiny import ones

X = ones(3, 4)  # 12 elements

# Operations for each of the 12 elements.
ELEMENTWISE: dict[str, tuple[Callable[..., Any], int]] = {
    "relu": (F.relu, 1),
    "sigmoid": (torch.sigmoid, 1),
    "tanh": (torch.tanh, 1),
    "relu6": (F.relu6, 1),
    "hardtanh": (F.hardtanh, 1),
    "threshold": (lambda x: F.threshold(x, 0.5, 0.0), 1),
    "leaky relu": (F.leaky_relu, 1),
    "rrelu": (partial(F.rrelu, training=True), 1),
    "hardshrink": (F.hardshrink, 1),
    "softshrink": (F.softshrink, 1),
    "elu": (F.elu, 2),
    "selu": (F.selu, 2),
    "celu": (F.celu, 2),
    "softplus": (F.softplus, 2),
    "log-sigmoid": (F.logsigmoid, 3),
    "logit": (torch.logit, 3),
    "hard sigmoid": (F.hardsigmoid, 2),
    "hard swish": (F.hardswish, 5),
    "silu": (F.silu, 6),
    "mish": (F.mish, 11),
    "gelu": (F.gelu, 11),
    "gelu by tanh": (partial(F.gelu, approximate="tanh"), 11),
    "softmax": (partial(F.softmax, dim=-1), 4),
    "log-softmax": (partial(F.log_softmax, dim=-1), 4),
    "square root": (torch.sqrt, 2),  # dy / (2 * y)
    "exp": (torch.exp, 1),  # dy * y
    "dropout": (partial(F.dropout, p=0.5), 1),
}


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_gradients_cost_the_same_on_every_device(name: str, device: str) -> None:
    """On meta tensors torch makes some of them of others (SiLU, Mish), on a CPU it has kernels for these."""
    function, operations = ELEMENTWISE[name]
    assert gradient(function, X, device=device) == (0, operations * 12)


def test_activations_of_two_inputs() -> None:
    assert gradient(F.glu, X) == (0, 3 * 6), "the gradient is half as large as the input"
    assert gradient(F.prelu, X, ones(1)) == (0, 2 * 12 + 12), "the weight is one for all: its gradients add up"


def test_kernels_that_meta_tensors_never_meet() -> None:
    dy = empty(3, 4)
    assert call_operator("_masked_softmax_backward", dy, grad_output=dy, output=dy) == (0, 4 * 12)
    sparse = torch.eye(3).to_sparse()
    for name in ("_sparse_softmax_backward_data", "_sparse_log_softmax_backward_data"):
        assert call_operator(name, sparse, grad_output=sparse, output=sparse) == (0, 4 * 3)
    assert call_operator("native_dropout_backward", dy, grad_output=dy, mask=dy, scale=2.0) == (0, 12)


# Losses: (function of input and target, operations for each of the 12 elements), summed up.
LOSSES: dict[str, tuple[Callable[..., Any], int]] = {
    "mse": (F.mse_loss, 3),
    "smooth l1": (F.smooth_l1_loss, 5),
    "huber": (F.huber_loss, 4),
    "binary cross entropy": (F.binary_cross_entropy, 6),
    "soft margin": (F.soft_margin_loss, 7),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    function, operations = LOSSES[name]
    assert gradient(function, X, X, frozen=(1,)) == (0, operations * 12)


def test_a_weighted_loss() -> None:
    assert gradient(F.binary_cross_entropy, X, X, X, frozen=(1, 2)) == (0, 7 * 12)


def test_cross_entropy_is_a_log_softmax_and_a_choice() -> None:
    classes = torch.zeros(3, dtype=torch.long)
    assert gradient(F.cross_entropy, X, classes) == (0, 4 * 12 + 3)
    image, pixels = ones(2, 4, 5, 5), torch.zeros(2, 5, 5, dtype=torch.long)
    assert gradient(F.cross_entropy, image, pixels) == (0, 4 * 200 + 50)


def test_margins() -> None:
    classes = torch.zeros(3, dtype=torch.long)
    assert gradient(F.multi_margin_loss, X, classes, device="cpu") == (0, 4 * 12)
    assert gradient(partial(F.multi_margin_loss, p=2), X, classes, device="cpu") == (0, 6 * 12)
    weighted = partial(F.multi_margin_loss, weight=ones(4))
    assert gradient(weighted, X, classes, device="cpu") == (0, 5 * 12)


def test_connectionist_temporal_classification() -> None:
    """6 steps of 2 samples of 5 classes, targets of 3: 2 * 3 + 1 states, 22 operations each; 6 for each probability."""
    lengths = torch.tensor([6, 6]), torch.tensor([3, 3])
    inputs = ones(6, 2, 5), torch.ones(2, 3, dtype=torch.long), *lengths
    assert gradient(partial(F.ctc_loss, reduction="sum"), *inputs, device="cpu") == (
        0,
        22 * (2 * 6 * 7) + 6 * (6 * 2 * 5),
    )


# Normalisation ------------------------------------------------------------------------------------------------------

IMAGE = ones(2, 4, 5)  # 40 elements, 4 channels
CHANNELS = ones(4), ones(4)


def batch_norm(training: bool, x: torch.Tensor, weight: Any = None, bias: Any = None) -> torch.Tensor:
    mean, var = torch.zeros(4, device=x.device), torch.ones(4, device=x.device)
    return F.batch_norm(x, mean, var, weight, bias, training)


def test_batch_norm() -> None:
    trains, knows = partial(batch_norm, True), partial(batch_norm, False)
    assert gradient(trains, IMAGE, *CHANNELS) == (0, 9 * 40)
    assert gradient(trains, IMAGE) == (0, 9 * 40), "without weights the sums are as many"
    assert gradient(trains, IMAGE, *CHANNELS, frozen=(0,)) == (0, 5 * 40), "n is 2, dy * n 1, two sums"
    assert gradient(knows, IMAGE, *CHANNELS) == (0, 6 * 40)
    assert gradient(knows, IMAGE, *CHANNELS, frozen=(1, 2)) == (0, 40)


def test_batch_norm_of_other_devices() -> None:
    x, c = empty(2, 4, 5), empty(4)
    given: dict[str, Any] = {"input": x, "weight": c}
    out = (x, c, c)
    assert call_operator("cudnn_batch_norm_backward", out, **given, grad_output=x) == (0, 9 * 40)
    assert call_operator("miopen_batch_norm_backward", out, **given, grad_output=x) == (0, 9 * 40)
    whole = call_operator("batch_norm_backward", out, **given, grad_out=x, update=True, output_mask=[True] * 3)
    assert whole == (0, 9 * 40)
    sums = call_operator("batch_norm_backward_reduce", (*out, c), **given, grad_out=x)
    rest = call_operator("batch_norm_backward_elemt", x, **given, grad_out=x)
    assert (sums, rest) == ((0, 4 * 40), (0, 5 * 40))


def test_layer_norm() -> None:
    def norm(x: torch.Tensor, weight: Any = None, bias: Any = None) -> torch.Tensor:
        return F.layer_norm(x, (5,), weight, bias)

    affine = ones(5), ones(5)
    assert gradient(norm, IMAGE) == (0, 9 * 40)
    assert gradient(norm, IMAGE, *affine) == (0, (9 + 1 + 2 + 1) * 40)
    assert gradient(norm, IMAGE, *affine, frozen=(1, 2)) == (0, (9 + 1) * 40)
    assert gradient(norm, IMAGE, *affine, frozen=(0,)) == (0, (2 + 2 + 1) * 40)


def test_group_norm() -> None:
    def norm(x: torch.Tensor, weight: Any = None, bias: Any = None) -> torch.Tensor:
        return F.group_norm(x, 2, weight, bias)

    assert gradient(norm, IMAGE, *CHANNELS) == (0, 9 * 40)
    assert gradient(norm, IMAGE, *CHANNELS, frozen=(0,)) == (0, 5 * 40)


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_fused_rms_norm_backward"), reason="no such kernel in this release")
def test_rms_norm() -> None:
    """8 roots; the kernel costs what torch spells out on meta tensors."""
    x = empty(2, 4, 5)
    given: dict[str, Any] = {"grad_out": x, "input": x, "normalized_shape": [5], "rstd": empty(2, 4, 1)}
    rms_norm = partial(call_operator, "_fused_rms_norm_backward", (x, empty(5)), **given)

    def spelt_out(x: torch.Tensor, weight: Any = None) -> torch.Tensor:
        return F.rms_norm(x, (5,), weight)

    alone = rms_norm(output_mask=[True, False])
    assert alone == gradient(spelt_out, IMAGE) == (0, 8 * 40 + 3 * 8)
    both = rms_norm(weight=empty(5), output_mask=[True, True])
    assert both == gradient(spelt_out, IMAGE, ones(5)) == (0, (9 + 2) * 40 + 3 * 8)
    by_weight = rms_norm(weight=empty(5), output_mask=[False, True])
    assert by_weight == gradient(spelt_out, IMAGE, ones(5), frozen=(0,)) == (0, 2 * 40)


@pytest.mark.skipif(
    not torch._C._dispatch_has_kernel_for_dispatch_key("aten::_weight_norm_interface_backward", "Meta"),
    reason="this release has no such gradient on shapes alone",
)
def test_weight_norm() -> None:
    assert gradient(lambda v, g: torch._weight_norm(v, g, 0), ones(3, 4), ones(3, 1)) == (0, 5 * 12 + 4 * 3)


# Places -------------------------------------------------------------------------------------------------------------

POOLED = ones(1, 2, 4, 4)


@pytest.mark.parametrize(
    ("function", "x", "operations"),
    [
        (partial(F.max_pool1d, kernel_size=2), ones(1, 2, 4), 4),
        (partial(F.max_pool2d, kernel_size=2), POOLED, 8),
        (partial(F.max_pool3d, kernel_size=2), ones(1, 2, 4, 4, 4), 16),
        (partial(F.avg_pool1d, kernel_size=2), ones(1, 2, 4), 4 * 2),
        (partial(F.avg_pool2d, kernel_size=(1, 2)), POOLED, 16 * 2),
        (partial(F.avg_pool2d, kernel_size=3, stride=1), POOLED, 8 * 9),
        (partial(F.avg_pool3d, kernel_size=2), ones(1, 2, 4, 4, 4), 16 * 8),
        (partial(F.adaptive_max_pool2d, output_size=2), POOLED, 8),
        (partial(F.adaptive_max_pool3d, output_size=2), ones(1, 2, 4, 4, 4), 16),
        (partial(F.adaptive_avg_pool2d, output_size=1), POOLED, 32),  # a mean: dy / 16 for each
        (partial(F.adaptive_avg_pool2d, output_size=3), POOLED, 2 * 6 * 6),  # windows of 2 over 4
        (partial(F.adaptive_avg_pool3d, output_size=3), ones(1, 2, 4, 4, 4), 2 * 6 * 6 * 6),
    ],
)
def test_pooling(function: Any, x: torch.Tensor, operations: int) -> None:
    assert gradient(function, x) == (0, operations)


def test_fractional_pooling() -> None:
    assert gradient(partial(F.fractional_max_pool2d, kernel_size=2, output_size=2), POOLED, device="cpu") == (0, 8)
    x = ones(1, 2, 4, 4, 4)
    assert gradient(partial(F.fractional_max_pool3d, kernel_size=2, output_size=2), x, device="cpu") == (0, 16)


def test_pooling_of_other_kernels() -> None:
    x, dy = empty(1, 2, 4, 4), empty(1, 2, 2, 2)
    assert call_operator("max_pool2d_backward", x, grad_output=dy, self=x, kernel_size=[2, 2]) == (0, 8)
    assert call_operator("mkldnn_max_pool2d_backward", x, grad_output=dy, input=x, kernel_size=[2, 2]) == (0, 8)
    assert call_operator("mkldnn_max_pool3d_backward", x, grad_output=dy, input=x, kernel_size=[2, 2]) == (0, 8)
    assert call_operator("mkldnn_adaptive_avg_pool2d_backward", x, grad_output=dy, self=x) == (0, 8 * 4)


@pytest.mark.parametrize(
    ("mode", "size", "operations"),
    [
        ("nearest", (4,), 1),
        ("nearest", (4, 4), 1),
        ("nearest", (4, 4, 4), 1),
        ("nearest-exact", (4,), 1),
        ("nearest-exact", (4, 4), 1),
        ("nearest-exact", (4, 4, 4), 1),
        ("linear", (4,), 2 * 2),
        ("bilinear", (4, 4), 2 * 4),
        ("trilinear", (4, 4, 4), 2 * 8),
        ("bicubic", (4, 4), 2 * 16),
    ],
)
def test_resampling(mode: str, size: tuple[int, ...], operations: int) -> None:
    resize = partial(F.interpolate, scale_factor=2, mode=mode)
    assert gradient(resize, ones(1, 3, *size)) == (0, operations * 3 * 8 ** len(size))


def test_resampling_that_takes_the_average() -> None:
    """From 8 to 4: four neighbours each way, a product and an addition; to 4 x 4 first along the height, of 8 x 4."""
    smooth = partial(F.interpolate, size=(4, 4), mode="bilinear", antialias=True, align_corners=False)
    assert gradient(smooth, ones(1, 3, 8, 8), device="cpu") == (0, 3 * (2 * 4 * 16 + 2 * 4 * 32))
    for mode, neighbours in (("bicubic", 8), ("lanczos", 8)):  # of 12, there are no more than 8
        if mode == "lanczos" and not hasattr(torch.ops.aten, "_upsample_lanczos2d_aa_backward"):
            continue  # torch 2.10
        given = {"grad_output": empty(1, 3, 4, 4), "output_size": [4, 4], "input_size": [1, 3, 8, 8]}
        found = call_operator(f"_upsample_{mode}2d_aa_backward", empty(1, 3, 8, 8), **given)
        assert found == (0, 3 * (2 * neighbours * 16 + 2 * neighbours * 32))


def test_sampling() -> None:
    """18 gradients: each of four neighbours takes 2 by the input and 3 for each of the two dimensions by the grid."""
    x, grid = ones(1, 2, 4, 4), ones(1, 3, 3, 2)
    bilinear = partial(F.grid_sample, align_corners=False)
    assert gradient(bilinear, x, grid) == (0, 18 * 4 * (2 + 6))
    assert gradient(bilinear, x, grid, frozen=(1,)) == (0, 18 * 4 * 2)
    assert gradient(bilinear, x, grid, frozen=(0,)) == (0, 18 * 4 * 6)
    assert gradient(partial(bilinear, mode="bicubic"), x, grid) == (0, 18 * 16 * (2 + 6))
    assert gradient(partial(bilinear, mode="nearest"), x, grid) == (0, 18)
    assert gradient(bilinear, ones(1, 2, 4, 4, 4), ones(1, 3, 3, 3, 3)) == (0, 54 * 8 * (2 + 9))
    given: dict[str, Any] = {"grad_output": empty(1, 2, 3, 3), "grid": empty(1, 3, 3, 2)}
    out = (empty(1, 2, 4, 4), empty(1, 3, 3, 2))
    assert call_operator("cudnn_grid_sampler_backward", out, **given, self=out[0]) == (0, 18 * 4 * 8)
    fallback = call_operator("_grid_sampler_2d_cpu_fallback_backward", out, **given, input=out[0], interpolation_mode=0)
    assert fallback == (0, 18 * 4 * 8)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_padding_adds_up_what_it_has_copied(mode: str, dimensions: int) -> None:
    pad = partial(F.pad, pad=(1, 1) * dimensions, mode=mode)
    assert gradient(pad, ones(1, 2, *(4,) * dimensions)) == (0, 2 * 6**dimensions)


def test_what_was_taken_once_is_moved_back() -> None:
    assert gradient(lambda x: x[1], X) == (0, 0)
    assert gradient(lambda x: x[:, 1:3], X) == (0, 0)
    assert gradient(torch.diagonal, X) == (0, 0)
    assert gradient(lambda x: F.pad(x, (1, 1)), X) == (0, 0)
    assert gradient(lambda x: x.mT.reshape(2, 6), X) == (0, 0)
    assert gradient(lambda x, y: torch.cat((x, y)), X, X) == (0, 0)
    mask = torch.tensor([True, False, True, False])
    assert gradient(lambda x, m, y: x.masked_scatter(m, y), X, mask, X, frozen=(0,)) == (0, 0)
    dy = empty(3, 4)
    assert call_operator("_nested_select_backward", dy, grad_output=dy, self=dy, dim=0, index=1) == (0, 0)


def test_what_was_taken_several_times_adds_up() -> None:
    index = torch.tensor([0, 0, 2])
    assert gradient(lambda x, i: x[i], X, index) == (0, 3 * 4)
    assert gradient(lambda x, i: x.index_select(0, i), X, index) == (0, 3 * 4)
    assert gradient(lambda x, i: x.gather(0, i[None]), X, index) == (0, 3)
    assert gradient(lambda x: x.unfold(1, 2, 1), X) == (0, 3 * 3 * 2)
    assert gradient(lambda x: F.unfold(x, 2), POOLED) == (0, 2 * 4 * 9)


def test_what_was_reduced_is_spread_again() -> None:
    dy = empty(3, 4)
    assert call_operator("_nested_sum_backward", dy, grad=dy, self=dy) == (0, 0)
    assert call_operator("_sparse_sum_backward", dy, grad=dy, self=dy) == (0, 0)
    reduced = partial(torch.segment_reduce, reduce="mean", lengths=torch.tensor([1, 2]), axis=0)
    assert gradient(reduced, X, device="cpu") == (0, 12)


def test_embedding() -> None:
    """6 words of 4 values each."""
    words = torch.zeros(2, 3, dtype=torch.long)
    assert gradient(F.embedding, words, ones(5, 4)) == (0, 6 * 4)
    assert gradient(partial(F.embedding, scale_grad_by_freq=True), words, ones(5, 4)) == (0, 2 * 6 * 4)

    def bags(i: torch.Tensor, rows: torch.Tensor, *weights: torch.Tensor, mode: str) -> torch.Tensor:
        return F.embedding_bag(i, rows, mode=mode, per_sample_weights=weights[0] if weights else None)

    assert gradient(partial(bags, mode="sum"), words, ones(5, 4)) == (0, 6 * 4)
    assert gradient(partial(bags, mode="max"), words, ones(5, 4), device="cpu") == (0, 2 * 4)
    weighted = gradient(partial(bags, mode="sum"), words, ones(5, 4), ones(2, 3), device="cpu")
    assert weighted == (0, 2 * 6 * 4 + 2 * 6 * 4), "by the rows, and by their weights"
    dense = call_operator(
        "_embedding_bag_dense_backward",
        empty(5, 4),
        grad=empty(2, 4),
        indices=empty(6),
        mode=0,
        scale_grad_by_freq=True,
    )
    assert dense == (0, 2 * 6 * 4)


def test_learnt_quantisation() -> None:
    dy = empty(3, 4)
    for kind in ("tensor", "channel"):
        assert call_operator(f"_fake_quantize_learnable_per_{kind}_affine_backward", (dy, dy, dy), grad=dy) == (
            0,
            11 * 12,
        )


# Autograd's other operators -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        *(torch.abs, torch.log, torch.sin, torch.erf, torch.rsqrt, torch.reciprocal, torch.digamma, torch.expm1),
        *(lambda x: x.sum(0), lambda x: x.mean(0), lambda x: x.amax(0), lambda x: x.max(0)[0], lambda x: x.prod(0)),
        *(lambda x: x.var(0), lambda x: x.std(), lambda x: x.norm(), lambda x: x.logsumexp(0), lambda x: x.cumsum(0)),
        *(lambda x: x.cumprod(0), lambda x: x.cummax(0)[0], lambda x: x.sort(0)[0], lambda x: x.topk(2)[0]),
        *(lambda x: x**3, lambda x: x.clamp(0, 1), lambda x: x / (1 + x), lambda x: torch.where(x > 0, x, 2 * x)),
        *(lambda x: x.tril(), lambda x: x.roll(1), lambda x: x.flip(0), lambda x: x.repeat(2, 2), torch.trace),
        *(lambda x: torch.atan2(x, x + 1), lambda x: x.masked_fill(x > 1, 0), lambda x: torch.lerp(x, x + 1, 0.5)),
        *(lambda x: torch.fft.rfft(x).abs(), lambda x: torch.fft.ifft(torch.fft.fft(x)).real, torch.linalg.vector_norm),
        *(lambda x: F.bilinear(x, x, x.new_ones(2, 4, 4)), lambda x: F.cosine_similarity(x, x + 1), F.normalize),
        *(lambda x: F.rms_norm(x, (4,)), lambda x: F.local_response_norm(x[None], 2), F.softsign, F.tanhshrink),
        *(
            lambda x: F.kl_div(x, x, reduction="sum"),
            lambda x: F.binary_cross_entropy_with_logits(x, x),
            lambda x: F.l1_loss(x, 2 * x),
        ),
        *(lambda x: F.pixel_shuffle(x.reshape(1, 4, 1, 3), 2), lambda x: torch.outer(x[0], x[1]), torch.logcumsumexp),
    ],
)
def test_nothing_that_autograd_runs_is_left_uncounted(function: Any) -> None:
    arguments = {"dim": 0} if function is torch.logcumsumexp else {}
    assert backward(partial(function, **arguments), X).operators


MATRIX = 4 * torch.eye(4) + ones(4, 4)


@pytest.mark.parametrize(
    "function",
    [
        *(torch.linalg.det, torch.linalg.slogdet, torch.linalg.inv, torch.linalg.cholesky, torch.linalg.qr),
        *(torch.linalg.svdvals, torch.linalg.eigvalsh, torch.linalg.pinv, torch.linalg.matrix_exp),
        *(lambda x: torch.linalg.solve(x, x[:, :2]), lambda x: torch.linalg.solve_triangular(x, x, upper=True)),
        *(lambda x: torch.cholesky_solve(x[:, :2], x), lambda x: torch.linalg.lstsq(x, x)[0]),
    ],
)
def test_gradients_of_decompositions_are_made_of_products_and_solutions(function: Any) -> None:
    def first(x: torch.Tensor) -> Any:
        found = function(x)
        return found if isinstance(found, torch.Tensor) else found[-1]

    assert backward(first, MATRIX, device="cpu").operators
