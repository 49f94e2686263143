"""What operators make for themselves, as the mask of numbers of one of booleans: by hand and by the allocator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_threads import one_thread

from profilerkit import ModelInputs, profile
from profilerkit_torch.trace import bytes_inside, row_sums
from profilerkit_torch.trace.bytes_inside import find_unknown_inside
from profilerkit_torch.trace.operator_facts import OperatorCall
from profilerkit_torch.trace.row_sums import count_reduction_bytes

LENGTH = 64
#: Queries, keys, values and outputs each: two heads of 64 tokens of 8 floats.
ACTIVATION = 2 * LENGTH * 8 * 4
SCORES = LENGTH * LENGTH


#: By name: what a linear layer of 8 features takes of its input, the shape of the input, and whether that is copied for
#: a layer that is trained, and for another.
ROWS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...], bool, bool]] = {
    "side by side": (lambda x: x, (4, 6, 8), False, False),
    "transposed": (lambda x: x.mT, (4, 8, 6), True, False),
    "transposed, one sample": (lambda x: x.mT, (1, 8, 6), False, False),
    "transposed images": (lambda x: x.permute(0, 2, 3, 1), (2, 8, 5, 6), True, True),
    "every second": (lambda x: x[:, ::2], (2, 6, 5, 8), True, False),
    "every second, all with one distance": (lambda x: x[:, :, ::2], (2, 3, 8, 8), False, False),
    "one sample three times": (lambda x: x.expand(3, -1, -1), (1, 5, 8), True, False),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("is_trained", [True, False])
def test_the_input_of_a_linear_layer_is_copied_if_its_rows_lie_apart(name: str, is_trained: bool) -> None:
    """Input, output, and the copy: by hand and by the allocator."""
    take, shape, *copied = ROWS[name]
    model = Call(lambda self, x: self.linear(take(x)), linear=nn.Linear(8, 16).requires_grad_(is_trained))
    x = torch.randn(shape)
    taken = take(x).numel() * 4
    expected = x.nbytes + 2 * taken + (taken if copied[not is_trained] else 0)
    assert BACKEND.trace(model, ModelInputs(x)).memory.peak_bytes(include_weights=False) == expected
    assert BACKEND.measure_memory(model, ModelInputs(x)) == expected


#: How a matrix of 16 x 32 numbers is taken of another, the shape of that one, and whether a product copies it.
MATRICES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, int], bool]] = {
    "in rows": (lambda x: x, (16, 32), False),
    "in columns": (lambda x: x.t(), (32, 16), False),
    "a part of wider rows": (lambda x: x[:, :32], (16, 64), False),
    "every second row": (lambda x: x[::2], (32, 32), False),
    "every second column": (lambda x: x[:, ::2], (16, 64), True),
    "one row repeated": (lambda x: x.expand(16, 32), (1, 32), True),
    "one column repeated": (lambda x: x.expand(16, 32), (16, 1), True),
}
#: Products of a left matrix of 16 x 32 numbers, and of a right one of 32 x 16.
PRODUCTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mm": torch.mm,
    "matmul": torch.matmul,
    "addmm": lambda left, right: torch.addmm(left[:, 0].new_zeros(1), left, right),
    "linear": lambda left, right: F.linear(left, right.t()),
}


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("name", MATRICES)
def test_a_product_copies_a_matrix_whose_numbers_lie_apart(name: str, product: str) -> None:
    """On the left, on the right, and on both sides: by hand and by the allocator."""
    take, shape, is_copied = MATRICES[name]
    multiply = PRODUCTS[product]
    bias = 4 if product == "addmm" else 0
    x, plain = torch.ones(shape), torch.ones(16, 32)
    functions: dict[Callable[..., torch.Tensor], int] = {
        lambda x, plain: multiply(take(x), plain.t()): 1,
        lambda x, plain: multiply(plain, take(x).t()): 1,
        lambda x, plain: multiply(take(x), take(x).t()): 2,
    }
    for function, copies in functions.items():
        model, inputs = Call(lambda self, *x, function=function: function(*x)), ModelInputs(x, plain)
        expected = x.nbytes + plain.nbytes + bias + 16 * 16 * 4 + copies * is_copied * plain.nbytes
        assert BACKEND.trace(model, inputs).memory.peak_bytes() == expected
        assert BACKEND.measure_memory(model, inputs) == expected


@pytest.mark.parametrize(
    ("take", "shape", "is_copied"),
    [
        (lambda x: x, (2, 16, 12, 8), False),
        (lambda x: x.mT, (2, 16, 8, 12), True),
        (lambda x: x[..., ::2], (2, 16, 12, 16), True),
        (lambda x: x.expand(2, -1, -1, -1), (1, 16, 12, 8), True),
        (lambda x: x.mT, (2, 50, 16), True),  # a sequence with the features last, as attention has it
        (lambda x: x[..., ::2], (2, 16, 4, 4, 8), True),
    ],
)
def test_a_convolution_copies_images_that_lie_apart(take: Any, shape: tuple[int, ...], is_copied: bool) -> None:
    """By hand and by the allocator, which has the same workspace of oneDNN for images that lie side by side."""
    x = torch.ones(shape)
    images, kind = take(x), {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}[x.dim()]
    layer: nn.Module = kind(16, 32, 1)
    model = Call(lambda self, x: self.layer(take(x)), layer=layer)
    copy = images.numel() * 4 * is_copied
    peak = BACKEND.trace(model, ModelInputs(x)).memory.peak_bytes(include_weights=False)
    assert peak == x.nbytes + 32 // 16 * images.numel() * 4 + copy
    dense = images.contiguous()
    measured = BACKEND.measure_memory(model, ModelInputs(x)) - x.nbytes
    assert measured == BACKEND.measure_memory(layer, ModelInputs(dense)) - dense.nbytes + copy


#: By name: the class of a layer, its options, how many images of a batch of 3 are unfolded at once,
#: in a forward pass and for gradients, and whether all groups are.
UNFOLDED: dict[str, tuple[Any, dict[str, int], int, int, bool]] = {
    "2d": (nn.Conv2d, {"padding": 1}, 3, 3, False),
    "3d": (nn.Conv3d, {"padding": 1}, 3, 3, True),
    "2d, dilated": (nn.Conv2d, {"padding": 2, "dilation": 2}, 1, 1, False),
    "3d, dilated": (nn.Conv3d, {"padding": 2, "dilation": 2}, 1, 1, False),
    "2d, transposed": (nn.ConvTranspose2d, {"padding": 1}, 3, 1, False),
    "3d, transposed": (nn.ConvTranspose3d, {"padding": 1}, 1, 1, False),
}


@pytest.mark.parametrize("name", UNFOLDED)
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("batch", [1, 3])
def test_images_in_double_precision_are_unfolded_by_the_kernel(name: str, groups: int, batch: int) -> None:
    """By hand and by the allocator: 8 channels to 16, 3 positions a dimension of a filter, images of 6 a dimension."""
    kind, options, at_once, at_once_backward, is_whole = UNFOLDED[name]
    layer = kind(8, 16, 3, groups=groups, bias=False, dtype=torch.float64, **options)
    dimensions = layer.weight.dim() - 2
    x = torch.ones(batch, 8, *[6] * dimensions, dtype=torch.float64)
    y_bytes, x_bytes = batch * 16 * 6**dimensions * 8, batch * 8 * 6**dimensions * 8
    read = 16 if layer.transposed else 8
    column = 6**dimensions * read * 3**dimensions * 8 // (1 if is_whole else groups)
    parts = groups > 1 and not is_whole
    copied = parts and batch > 1

    inside = column * min(batch, at_once) + copied * x_bytes // groups
    expected = x_bytes + y_bytes + max(inside, parts * y_bytes)
    assert BACKEND.trace(layer, ModelInputs(x)).memory.peak_bytes(include_weights=False) == expected
    assert BACKEND.measure_memory(layer, ModelInputs(x)) == expected

    inside = column * min(batch, at_once_backward) + copied * (x_bytes + y_bytes) // groups
    w_bytes = layer.weight.nbytes
    # Output and its gradient; the input gets none.
    backward = x_bytes + 2 * y_bytes + w_bytes + max(inside, parts * w_bytes)
    memory = BACKEND.trace_training(layer, ModelInputs(x)).memory
    assert memory.peak_bytes(include_weights=False) == max(expected, backward)


@pytest.mark.parametrize(
    ("layer", "inside"),
    [
        (nn.Conv2d(8, 16, 1), 0),
        (nn.Conv2d(8, 16, 1, stride=2), 3 * 9 * 8),
        (nn.Conv2d(8, 16, 1, dilation=2), 36 * 8),
        (nn.Conv3d(8, 16, 1), 0),
        (nn.Conv3d(8, 16, 1, groups=2), 3 * 216 * 8),
        (nn.ConvTranspose2d(8, 16, 1), 3 * 36 * 16),
    ],
    ids=str,
)
def test_filters_of_one_position_read_images_in_place_if_they_can(layer: Any, inside: int) -> None:
    """By hand and by the allocator, three images of 6 a dimension in double precision."""
    layer = layer.double()
    x = torch.ones(3, 8, *[6] * (layer.weight.dim() - 2), dtype=torch.float64)
    expected = x.nbytes + layer(x).nbytes + inside * 8
    assert BACKEND.trace(layer, ModelInputs(x)).memory.peak_bytes(include_weights=False) == expected
    assert BACKEND.measure_memory(layer, ModelInputs(x)) == expected


ATEN = torch.ops.aten
SEQUENCES, IMAGES, VOLUMES = (4, 6, 8), (4, 6, 8, 8), (4, 2, 8, 8, 8)
#: Of images and volumes twice as high and wide, pooled to these shapes.
POOLED = {
    2: (torch.ones(4, 6, 16, 16), torch.zeros(IMAGES).long()),
    3: (torch.ones(4, 2, 16, 16, 16), torch.zeros(VOLUMES).long()),
}


def pad(kind: str, rank: int) -> Any:
    """Return an operator that pads at all ends by one number."""
    return lambda x: getattr(ATEN, f"{kind}_pad{rank}d")(x, [1] * 2 * rank)


def unpad(kind: str, rank: int) -> Any:
    """Return the gradient of such an operator."""
    function = getattr(ATEN, f"{kind}_pad{rank}d_backward")
    return lambda dy: function(dy, dy.new_ones(*dy.shape[:2], *(size - 2 for size in dy.shape[2:])), [1] * 2 * rank)


def reduce(kind: str, *align: bool) -> Any:
    """Return the gradient of an operator that makes images twice as high and wide."""
    function = getattr(ATEN, f"upsample_{kind}_backward")
    return lambda dy: function(dy, dy.shape[2:], [*dy.shape[:2], *(size // 2 for size in dy.shape[2:])], *align)


#: Functions that copy a tensor whose numbers lie apart, by the shape of that, and what else they take.
COPYING: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[torch.Tensor, ...]]] = {
    "mv": (torch.mv, (16, 24), (torch.ones(24),)),
    "matmul by a vector": (torch.matmul, (16, 24), (torch.ones(24),)),
    "addmv": (lambda x, y: torch.addmv(y[:1], x, y), (16, 24), (torch.ones(24),)),
    "linear's weight": (lambda weight, x: F.linear(x, weight), (16, 24), (torch.ones(4, 6, 24),)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), SEQUENCES, ()),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), SEQUENCES, ()),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 2), SEQUENCES, ()),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 2), SEQUENCES, ()),
    "fold": (lambda x: F.fold(x, (2, 4), 1), SEQUENCES, ()),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), IMAGES, ()),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), VOLUMES, ()),
    "max_pool2d, places": (lambda x: F.max_pool2d(x, 2, return_indices=True), IMAGES, ()),
    "max_pool3d, places": (lambda x: F.max_pool3d(x, 2, return_indices=True), VOLUMES, ()),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), IMAGES, ()),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), VOLUMES, ()),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), IMAGES, ()),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), IMAGES, ()),
    "the operator of adaptive_avg_pool2d": (lambda x: ATEN._adaptive_avg_pool2d(x, [2, 2]), IMAGES, ()),
    "the gradient of softmax": (
        lambda dy, y: ATEN._softmax_backward_data(dy, y, -1, y.dtype),
        IMAGES,
        (torch.ones(IMAGES),),
    ),
    "the gradient of log_softmax": (
        lambda dy, y: ATEN._log_softmax_backward_data(dy, y, 1, y.dtype),
        IMAGES,
        (torch.ones(IMAGES),),
    ),
    "the gradient of layer_norm": (
        lambda dy, x, mean: ATEN.native_layer_norm_backward(dy, x, [8], mean, mean, None, None, [True, False, False]),
        IMAGES,
        (torch.ones(IMAGES), torch.ones(4, 6, 8, 1)),
    ),
    "the gradient of embedding": (
        lambda dy, index: ATEN.embedding_dense_backward(dy, index, 10, -1, False),
        SEQUENCES,
        (torch.zeros(4, 6).long(),),
    ),
    "the gradient of grid_sample": (
        lambda dy, x, grid: ATEN.grid_sampler_2d_backward(dy, x, grid, 0, 0, False, [True, True]),
        IMAGES,
        (torch.ones(IMAGES), torch.zeros(4, 8, 8, 2)),
    ),
    "the gradient of avg_pool2d": (
        lambda dy, x, _: ATEN.avg_pool2d_backward(dy, x, [2], [2], [0], False, True, None),
        IMAGES,
        POOLED[2],
    ),
    "the gradient of avg_pool3d": (
        lambda dy, x, _: ATEN.avg_pool3d_backward(dy, x, [2], [2], [0], False, True, None),
        VOLUMES,
        POOLED[3],
    ),
    "the gradient of max_pool2d": (
        lambda dy, x, places: ATEN.max_pool2d_with_indices_backward(dy, x, [2], [2], [0], [1], False, places),
        IMAGES,
        POOLED[2],
    ),
    "the gradient of max_pool3d": (
        lambda dy, x, places: ATEN.max_pool3d_with_indices_backward(dy, x, [2], [2], [0], [1], False, places),
        VOLUMES,
        POOLED[3],
    ),
    "adaptive avg 2d": (lambda dy, x, _: ATEN._adaptive_avg_pool2d_backward(dy, x), IMAGES, POOLED[2]),
    "adaptive avg 3d": (lambda dy, x, _: ATEN._adaptive_avg_pool3d_backward(dy, x), VOLUMES, POOLED[3]),
    "adaptive max 2d": (ATEN.adaptive_max_pool2d_backward, IMAGES, POOLED[2]),
    "adaptive max 3d": (ATEN.adaptive_max_pool3d_backward, VOLUMES, POOLED[3]),
    "reduce nearest 1d": (reduce("nearest1d"), SEQUENCES, ()),
    "reduce linear 1d": (reduce("linear1d", False), SEQUENCES, ()),
    "reduce nearest 2d": (reduce("nearest2d"), IMAGES, ()),
    "reduce bilinear 2d": (reduce("bilinear2d", False), IMAGES, ()),
    "reduce bicubic 2d": (reduce("bicubic2d", False), IMAGES, ()),
    "reduce nearest 3d": (reduce("nearest3d"), VOLUMES, ()),
    "reduce trilinear 3d": (reduce("trilinear3d", False), VOLUMES, ()),
}
for rank, shape in ((1, SEQUENCES), (2, IMAGES), (3, VOLUMES)):
    for kind, mode in (("reflection", "reflect"), ("replication", "replicate")):
        COPYING[f"pad {mode} {rank}d"] = (partial(F.pad, pad=[1] * 2 * rank, mode=mode), shape, ())
        COPYING[f"the operator of pad {mode} {rank}d"] = (pad(kind, rank), shape, ())
        COPYING[f"the gradient of pad {mode} {rank}d"] = (unpad(kind, rank), shape, ())


@pytest.mark.parametrize("is_repeated", [False, True])
@pytest.mark.parametrize("name", COPYING)
def test_the_copy_of_numbers_that_lie_apart_counts(name: str, is_repeated: bool) -> None:
    """By hand and by the allocator: every second number of a row, or one number of 4 bytes, and a copy without gaps."""
    function, shape, others = COPYING[name]
    model, dense = Call(lambda self, *args: function(*args)), torch.ones(shape)
    apart = torch.ones(()).expand(shape) if is_repeated else dense.repeat_interleave(2, -1)[..., ::2]
    inputs = ModelInputs(apart, *others)
    side_by_side = BACKEND.trace(model, ModelInputs(dense, *others)).memory.peak_bytes() - dense.nbytes
    expected = side_by_side + (4 if is_repeated else dense.nbytes) + dense.nbytes
    assert BACKEND.trace(model, inputs).memory.peak_bytes() == expected
    assert BACKEND.measure_memory(model, inputs) == expected


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.adaptive_avg_pool2d(x[..., ::2], 1),
        lambda x: F.pad(x[..., ::2], (1, 1)),
        lambda x: F.avg_pool2d(x, 2),
    ],
)
def test_numbers_that_a_kernel_reads_as_they_are_have_no_copy(function: Any) -> None:
    """A mean of all, padding with zeros, and images with the channels last: the input and the output alone."""
    x = torch.ones(IMAGES).contiguous(memory_format=torch.channels_last)
    model = Call(lambda self, x: function(x))
    assert BACKEND.trace(model, ModelInputs(x)).memory.peak_bytes() == x.nbytes + function(x).nbytes
    assert BACKEND.measure_memory(model, ModelInputs(x)) == pytest.approx(x.nbytes + function(x).nbytes, abs=16)


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


def attend_with_narrow_values(self: Any, x: torch.Tensor, mask: torch.Tensor | None = None, **options: Any) -> Any:
    return F.scaled_dot_product_attention(x, x, x[..., :4], mask, **options)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_that_no_kernel_takes_makes_all_scores(is_causal: bool) -> None:
    """Its values are narrower than its queries, as in DeepSeek's attention: the kernel of the CPU takes none such.

    Of two heads: scaled queries, the scores, their softmax, a boolean for each and for each row, and minus infinity.
    A causal mask is one of numbers.
    """
    scores = 2 * SCORES
    inside = ACTIVATION + scores * 4 + scores * 4 + scores + 2 * LENGTH + 4 + is_causal * SCORES * 4
    model, x = Call(partial(attend_with_narrow_values, is_causal=is_causal)), activations()
    assert BACKEND.trace(model, ModelInputs(x)).memory.peak_bytes() == ACTIVATION + inside
    assert BACKEND.measure_memory(model, ModelInputs(x)) == ACTIVATION + inside


@pytest.mark.parametrize("values", [4, 8])
def test_heads_that_lie_apart_are_copied_for_its_products(values: int) -> None:
    """Two samples of 16 tokens with two heads, which follow the tokens in memory as layers return them.

    At the product of queries and keys there are both scaled, both copied, and the scores.
    """

    def attend_over_layers(self: Any, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (x.unflatten(-1, (2, 24)).transpose(1, 2)[..., i * 8 : i * 8 + 8] for i in range(3))
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(query, key, value[..., :values])

    x = torch.randn(2, 16, 2 * 3 * 8)
    inside = 4 * (x.nbytes // 3) + 2 * 2 * 16 * 16 * 4
    assert BACKEND.trace(Call(attend_over_layers), ModelInputs(x)).memory.peak_bytes() == x.nbytes + inside
    assert BACKEND.measure_memory(Call(attend_over_layers), ModelInputs(x)) == x.nbytes + inside


def test_each_block_of_a_model_may_name_its_kernel() -> None:
    """What one block makes inside is not remembered for the other: in either order, and in a profile after it."""

    def attend_twice(self: Any, x: torch.Tensor, is_spelled_out_first: bool) -> torch.Tensor:
        for is_spelled_out in (is_spelled_out_first, not is_spelled_out_first):
            with sdpa_kernel(SDPBackend.MATH if is_spelled_out else SDPBackend.FLASH_ATTENTION):
                x = F.scaled_dot_product_attention(x, x, x)
        return x

    scores = 2 * SCORES
    inside = ACTIVATION + 2 * scores * 4 + scores + 2 * LENGTH + 4  # instead of the output, which comes last
    for is_first in (True, False, True):
        trace = BACKEND.trace(Call(attend_twice), ModelInputs(activations(), is_first))
        first, second = (inside, ACTIVATION) if is_first else (ACTIVATION, inside)
        assert trace.memory.live_bytes == (ACTIVATION + first, 2 * ACTIVATION + second)


def test_narrow_numbers_are_widened_for_it() -> None:
    """Copies of queries, keys and values in float32, beside scaled queries; the scores are in float32 too."""
    scores = 2 * SCORES
    copies = 2 * ACTIVATION + ACTIVATION // 2
    inside = copies + ACTIVATION + scores * 4 + scores * 4 + scores + 2 * LENGTH + 4
    memory = BACKEND.trace(Call(attend_with_narrow_values), ModelInputs(activations(torch.bfloat16))).memory
    assert memory.peak_bytes() == ACTIVATION // 2 + inside


def test_keys_that_several_heads_share_are_repeated_for_it() -> None:
    """Four heads of queries, two of keys: 4 x 64 x 8 repeated keys and as many values, 4 x 64 x 64 scores."""

    def attend_in_groups(self: Any, query: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(query, x, x, enable_gqa=True)

    queries, scores = 2 * ACTIVATION, 4 * SCORES
    inside = 2 * queries + queries + scores * 4 + scores * 4 + scores + 4 * LENGTH + 4
    inputs = ModelInputs(torch.randn(1, 4, LENGTH, 8), activations())
    assert BACKEND.trace(Call(attend_in_groups), inputs).memory.peak_bytes() == queries + ACTIVATION + inside


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
        peaks.append((predicted, BACKEND.measure_memory(Call(attend), inputs)))
    (predicted, measured), (predicted_of_numbers, measured_of_numbers) = peaks
    assert predicted - predicted_of_numbers == measured - measured_of_numbers == difference


@pytest.mark.parametrize(
    ("rows", "columns", "measured"),
    [
        (8192, 4096, 138_412_160),
        (8192, 1000, 65_536_032),
        (4096, 3072, 100_663_392),
        (4096, 2304, 75_497_544),
        (4096, 1024, 33_554_464),
        (4096, 768, 25_165_848),
    ],
)
def test_the_buffer_of_a_sum_over_rows(rows: int, columns: int, measured: int) -> None:
    """What the allocator of an H200 (132 multiprocessors of 2,048 threads) gave out in the gradient of a bias.

    By hand for 8,192 x 4,096: each thread has 4 columns, a block 32 x 4 threads, so 32 blocks along the columns, of
    132 * 16 that have room: 66 for the same columns. 4 bytes * 4,096 * 66 * 32 * 4, and 4 bytes for each of the 32.
    """
    assert count_reduction_bytes(rows, columns, 132, 2048) == measured


@pytest.mark.parametrize(("rows", "columns"), [(64, 4096), (1, 8), (8192, 1)])
def test_few_rows_or_columns_need_no_buffer_to_speak_of(rows: int, columns: int) -> None:
    assert count_reduction_bytes(rows, columns, 132, 2048) <= 4 * 512 * 132 * 16


@pytest.mark.parametrize(("kind", "name"), [("LSTM", "lstm"), ("GRU", "gru"), ("RNN", "rnn_tanh")])
def test_the_workspace_of_recurrent_layers_on_cuda_is_named(kind: str, name: str) -> None:
    operator, args = getattr(torch.ops.aten, name).input, (torch.ones(1, 1, 1), torch.ones(1, 1, 1), [torch.ones(1, 1)])
    assert find_unknown_inside(operator, args, torch.device("cuda")) == f"the workspace of {name}"
    # On the CPU the layout of oneDNN's LSTM depends on the processor; the steps of the others are torch's own.
    assert find_unknown_inside(operator, args, torch.device("cpu")) == (
        "the workspace of lstm" if kind == "LSTM" else ""
    )
    assert find_unknown_inside(torch.ops.aten.relu.default, (), torch.device("cuda")) == ""


@pytest.mark.parametrize(("kind", "name"), [("LSTM", "lstm"), ("GRU", "gru"), ("RNN", "rnn_tanh")])
@pytest.mark.parametrize("key", ["memory_footprint", "training_memory"])
def test_the_workspace_for_packed_samples_is_named(kind: str, name: str, key: str) -> None:
    """The gates of all steps are in no trace: they are more than all that is counted."""
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(4, 3, 2), torch.tensor([4, 2, 1]))
    record = profile(getattr(nn, kind)(2, 8), packed, metrics=[key]).status(key)
    assert record.missing == (f"the workspace of {name} of unknown size (1 call)",)


#: By hand, in states of 3 samples of 8 floats, beside the input: the gates of all steps are there till the end.
#: 1 step of a GRU: 3 gates, 3 of the step, the new gate and the new state. 4 steps: 12 gates, 4 states, 4 joined. Of
#: an RNN: 1, 1 and 1; 4, 4 and 4. Of both directions: the gates of one; the states by step, joined, and both joined.
RECURRENT_STATES = [
    (nn.GRU(8, 8), 1, 3 + 3 + 1 + 1),
    (nn.GRU(8, 8), 4, 12 + 4 + 4),
    (nn.RNN(8, 8), 1, 1 + 1 + 1),
    (nn.RNN(8, 8, nonlinearity="relu"), 4, 4 + 4 + 4),
    (nn.GRU(8, 8, bidirectional=True), 4, 12 + 2 * 4 + 2 * 4 + 2 * 4),
    (nn.RNN(8, 8, bidirectional=True), 4, 4 + 2 * 4 + 2 * 4 + 2 * 4),
    (nn.GRU(8, 8, 3), 4, 4 + 2 + 12 + 4 + 4),  # the last layer, beside what it reads and the states of the two before
    (nn.RNN(8, 8, 9), 1, 1 + 9 + 9),  # the last states of all layers, one by one and joined
]


@pytest.mark.parametrize(("layer", "steps", "states"), RECURRENT_STATES)
def test_recurrent_layers_have_the_gates_of_all_steps_at_once(layer: nn.RNNBase, steps: int, states: int) -> None:
    x, start = torch.zeros(steps, 3, 8), torch.zeros(layer.num_layers * (1 + layer.bidirectional), 3, 8)
    inputs = ModelInputs(x, start)
    expected = states * 3 * 8 * 4 + x.nbytes + start.nbytes
    memory = BACKEND.trace(layer, inputs).memory
    assert memory.peak_bytes() - memory.weight_bytes == expected
    assert BACKEND.measure_memory(layer, inputs) == expected


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_recurrent_layers_copy_an_input_with_the_samples_first(kind: type[nn.GRU | nn.RNN], directions: int) -> None:
    """The product of the first layer needs the steps first: the copy is there beside its gates, and is large here."""
    layer = kind(512, 4, 2, batch_first=True, bidirectional=directions == 2)
    inputs = ModelInputs(torch.zeros(3, 5, 512), torch.zeros(2 * directions, 3, 4))
    memory = BACKEND.trace(layer, inputs).memory
    assert memory.peak_bytes() - memory.weight_bytes == BACKEND.measure_memory(layer, inputs) > 2 * 3 * 5 * 512 * 4
    assert not memory.missing


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (torch.linalg.matrix_exp, "linalg_matrix_exp"),  # the larger its numbers are, the more powers it takes
        (torch.linalg.inv, "linalg_inv_ex"),
        (torch.linalg.det, "_linalg_det"),
        (torch.linalg.qr, "linalg_qr"),
        (torch.linalg.svd, "_linalg_svd"),
        (torch.linalg.eigh, "_linalg_eigh"),
        (torch.linalg.eigvals, "linalg_eigvals"),
        (torch.linalg.pinv, "linalg_pinv"),
        (torch.unique, "_unique2"),
        (lambda x: x.clone().index_put_((x > 0,), x.flatten()), "index_put_"),
        (lambda x: torch.fft.irfft2(x + 0j), "_fft_c2r"),
        (lambda x: torch.fft.hfft(x + 0j), "_fft_c2r"),
        (torch.median, "median"),
        (lambda x: x.kthvalue(3, 0), "kthvalue"),
        (lambda x: x.count_nonzero(0), "count_nonzero"),
        (lambda x: torch.dist(x, x), "dist"),
        (lambda x: torch.cdist(x, x), "_euclidean_dist"),
        (lambda x: F.bilinear(x, x, x[None].expand(64, 64, 64)), "_trilinear"),
        (lambda x: F.affine_grid(x[:2, :6].view(2, 2, 3), [2, 3, 8, 9], align_corners=False), "affine_grid_generator"),
        (lambda x: torch.ops.aten._safe_softmax.default(x.t(), -1), "_safe_softmax"),
        (lambda x: x.histc(1000), "histc"),
        (lambda x: torch.isin(x, x), "isin"),
        (lambda x: torch.allclose(x, x), "allclose"),
        (lambda x: F.unfold(x[None, None], 3), "im2col"),
        (
            lambda x: F.interpolate(x[None, None], size=(32, 32), mode="bilinear", antialias=True),
            "_upsample_bilinear2d_aa",
        ),
        # Tensors of several dtypes or shapes.
        (lambda x: F.mse_loss(x, x.double()), "mse_loss"),
        (lambda x: F.mse_loss(x.half(), x, reduction="none"), "mse_loss"),
        (lambda x: torch.ops.aten.mse_loss.default(x, x[0]), "mse_loss"),
        (lambda x: F.smooth_l1_loss(x, x.half()), "smooth_l1_loss"),
        (lambda x: F.huber_loss(x.double(), x), "huber_loss"),
        (lambda x: F.binary_cross_entropy_with_logits(x, x.double()), "binary_cross_entropy_with_logits"),
        (lambda x: F.soft_margin_loss(x, x.double()), "soft_margin_loss"),
        (lambda x: torch.cat([x, x.double()]), "cat"),
        (lambda x: torch._foreach_mul([x], [x.double()]), "_foreach_mul"),
    ],
)
def test_memory_without_a_known_size_is_named(function: Any, name: str) -> None:
    """The allocator gives out more than the trace has, by how much depends on values and libraries."""
    model, inputs = Call(lambda self, x: function(x)), ModelInputs(torch.eye(64) + 1)
    memory = BACKEND.trace(model, inputs).memory
    assert memory.missing == (f"the workspace of {name} of unknown size (1 call)",)
    assert BACKEND.measure_memory(model, inputs) > memory.peak_bytes()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("name", [f"conv{kind}{rank}d" for kind in ("", "_transpose") for rank in (1, 2, 3)])
def test_the_memory_of_a_complex_convolution_is_a_lower_bound(name: str, kernel: int, dtype: torch.dtype) -> None:
    """Three convolutions of real numbers with their sums, each with a workspace of its own; tensors are counted."""
    rank = int(name[-2])
    x, weight = torch.ones(2, 4, *[6] * rank, dtype=dtype), torch.ones(4, 4, *[kernel] * rank, dtype=dtype)
    function = getattr(F, name)
    model, inputs = Call(lambda self, x, weight: function(x, weight)), ModelInputs(x, weight)
    memory = BACKEND.trace(model, inputs).memory
    assert memory.missing == (f"the workspace of {name} of unknown size (1 call)",)
    assert memory.peak_bytes() == x.nbytes + weight.nbytes + function(x, weight).nbytes
    assert BACKEND.measure_memory(model, inputs) > memory.peak_bytes()


def test_inverse_transforms_of_one_dimension_copy_nothing() -> None:
    model, inputs = Call(lambda self, x: torch.fft.irfft(x)), ModelInputs(torch.ones(4, 33, dtype=torch.complex64))
    memory = BACKEND.trace(model, inputs).memory
    assert not memory.missing
    assert memory.peak_bytes() == BACKEND.measure_memory(model, inputs) == 4 * 33 * 8 + 4 * 64 * 4


def test_what_a_kernel_in_python_makes_is_unknown() -> None:
    """8 x 4 floats go in and 4 come out; the nine copies of them between are seen nowhere."""

    @torch.library.custom_op("profilerkit_bytes_inside::sum_copies", mutates_args=())
    def sum_copies(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x] * 9).sum(0)

    @sum_copies.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(x.shape[1:])

    memory = BACKEND.trace(Call(lambda self, x: sum_copies(x)), ModelInputs(torch.ones(8, 4))).memory
    assert memory.peak_bytes() == 4 * (8 * 4 + 4)
    name = "the workspace of profilerkit_bytes_inside::sum_copies of unknown size (1 call)"
    assert memory.missing == (name,)


def count_inside(operator: Any, *args: Any, device: str | None = None) -> int:
    where = None if device is None else torch.device(device)
    return bytes_inside.count_bytes_inside(OperatorCall(operator, args, {}), None, where)


def test_the_gradient_of_a_bias_on_cuda_needs_its_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,096 rows of 1,024 in half: the sum over the rows, its buffer above it, with a device that is made up."""
    monkeypatch.setattr(row_sums, "_count_processors", lambda device: (132, 2048))
    x = torch.empty(4, 1024, 1024, dtype=torch.float16, device="meta")
    total = torch.ops.aten.sum.dim_IntList
    assert count_inside(total, x, [0, 1], device="cuda") == 33_554_464
    assert count_inside(total, x, [2], device="cuda") == 0
    assert count_inside(total, x, [0, 1], device="cpu") == 0


@pytest.mark.parametrize(("device", "expected"), [("cuda", 2 * 3 * 5 * 4), ("cpu", 0), (None, 0)])
def test_the_gradient_of_a_softmax_begins_with_a_product_on_cuda(device: str | None, expected: int) -> None:
    """2 x 3 x 5 numbers of 4 bytes: the output times its gradient, in the dtype of the larger."""
    gradient, output = torch.zeros(2, 3, 5, dtype=torch.bfloat16), torch.zeros(2, 3, 5)
    backward = torch.ops.aten._softmax_backward_data.default
    assert count_inside(backward, gradient, output, -1, torch.float32, device=device) == expected


def test_the_gradient_of_attention_in_rows_begins_with_a_product() -> None:
    """On meta tensors as on CUDA: 2 x 4 x 6 x 8 numbers in float32; half-sized numbers have a kernel for it."""
    backward = torch.ops.aten._scaled_dot_product_efficient_attention_backward.default
    gradient = torch.zeros(2, 4, 6, 8)
    assert count_inside(backward, gradient) == 2 * 4 * 6 * 8 * 4
    assert count_inside(backward, gradient.half()) == 0


@pytest.mark.parametrize(
    ("name", "dtype", "options", "expected"),
    [
        ("sum", torch.bool, {}, 8),  # added up in int64
        ("cumsum", torch.int32, {}, 8),
        ("sum", torch.int8, {"dtype": torch.int32}, 4),
        ("sum", torch.int64, {}, 0),
        ("sum", torch.float32, {}, 0),
        ("mean", torch.bfloat16, {}, 4),  # in float32
        ("sum", torch.bfloat16, {}, 0),
    ],
)
def test_integers_are_cast_before_they_are_added_up(name: str, dtype: Any, options: Any, expected: int) -> None:
    """By the allocator for 1000 x 1000 booleans: 8,008,000 bytes at once for the sums of the rows, which take 8,000."""
    x = torch.ones(100, 100).to(dtype)
    model = Call(lambda self, x: getattr(torch, name)(x, 1, **options))
    memory = BACKEND.trace(model, ModelInputs(x)).memory
    output = getattr(torch, name)(x, 1, **options).nbytes
    assert memory.peak_bytes() == x.nbytes + output + 100 * 100 * expected


def test_a_loss_of_margins_is_made_in_one_tensor() -> None:
    """Input and target, and the loss of each element, whose memory the loss keeps."""
    memory = BACKEND.trace(Call(lambda self, x: F.soft_margin_loss(x, x)), ModelInputs(torch.ones(1000))).memory
    assert memory.peak_bytes() == 2 * 4000


@pytest.mark.parametrize(("weights", "reduction"), [(1, "sum"), (1000, "sum"), (10, "none")])
def test_a_loss_of_logits_has_its_weights_less_one_beside_two_tensors(weights: int, reduction: str) -> None:
    """A loss of each element is one of the two; input and target are there too."""

    def lose(self: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(x, x, pos_weight=weight, reduction=reduction)

    x, weight = torch.ones(1000 // weights, weights), torch.ones(weights)
    expected = x.nbytes + weight.nbytes + 2 * x.nbytes + weight.nbytes + (reduction == "sum") * 4
    assert BACKEND.trace(Call(lose), ModelInputs(x, weight)).memory.peak_bytes() == expected
    assert BACKEND.measure_memory(Call(lose), ModelInputs(x, weight)) == pytest.approx(expected, abs=16)


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        # Input and target are one tensor; the loss of each element, and their mean.
        (lambda x: F.huber_loss(x, x), [(100, 100)], 4 * (10_000 + 10_000 + 1)),
        (lambda x: F.huber_loss(x, x, reduction="none"), [(100, 100)], 4 * (10_000 + 10_000)),
        # The same, and the memory of a whole tensor for their mean, which the output keeps.
        (lambda x: F.mse_loss(x, x), [(100, 100)], 4 * 3 * 10_000),
        (lambda x: F.smooth_l1_loss(x, x, reduction="sum"), [(100, 100)], 4 * 3 * 10_000),
        (lambda x: F.mse_loss(x, x, reduction="none"), [(100, 100)], 4 * 2 * 10_000),
        # The largest of each row, the exponentials, and the logarithms.
        (lambda x: x.logsumexp(-1), [(50, 200)], 4 * (10_000 + 50 + 10_000 + 50)),
        (lambda x: x.logsumexp((0, 1), keepdim=True), [(50, 200)], 4 * (10_000 + 1 + 10_000 + 1)),
        (lambda x: x.to(torch.int32).logsumexp(0), [(50, 200)], 4 * (2 * 10_000 + 2 * 10_000 + 200 + 200)),
        # The filter; for each of 14 x 14 outputs all 16 x 9 numbers that make it, and the outputs.
        (lambda x: F.conv2d(x, x.new_ones(1, 16, 3, 3)), [(1, 16, 16, 16)], 4 * (4096 + 144 + 196 * 144 + 196)),
        (lambda x: F.conv2d(x, x.new_ones(1, 16, 3, 3)), [(16, 16, 16)], 4 * (4096 + 144 + 196 * 144 + 196)),
        (lambda x: F.conv1d(x, x.new_ones(1, 16, 3)), [(1, 16, 100)], 4 * (1600 + 48 + 98 * 48 + 98)),
        (lambda x: F.conv3d(x, x.new_ones(1, 2, 3, 3, 3)), [(1, 2, 8, 8, 8)], 4 * (1024 + 54 + 216 * 54 + 216)),
        (lambda x: F.conv3d(x, x.new_ones(1, 2, 1, 1, 1)), [(1, 2, 8, 8, 8)], 4 * (1024 + 2 + 512)),
        (
            lambda x: F.conv2d(x, x.new_ones(1, 16, 3, 3), padding=1, stride=(1, 2)),
            [(1, 16, 2, 2)],
            4 * (64 + 144 + 2 * 144 + 2),
        ),
        (
            lambda x: F.conv2d(x, x.new_ones(1, 16, 3, 3), padding="same"),
            [(1, 16, 2, 2)],
            4 * (64 + 144 + 4 * 144 + 4),
        ),
        # The other way: for each of 16 x 16 inputs the 9 outputs that it makes.
        (
            lambda x: F.conv_transpose2d(x, x.new_ones(16, 1, 3, 3)),
            [(1, 16, 16, 16)],
            4 * (4096 + 144 + 256 * 9 + 18 * 18),
        ),
        # Indices of 8 bytes beside each output.
        (lambda x: F.max_pool2d(x, 2), [(2, 3, 20, 20)], 2400 * 4 + 600 * (4 + 8)),
        (lambda x: F.max_pool2d(x, 3, 2, padding=1, ceil_mode=True), [(3, 20, 20)], 1200 * 4 + 3 * 11 * 11 * (4 + 8)),
        (lambda x: F.max_pool3d(x, 2), [(2, 3, 10, 10, 10)], 6000 * 4 + 750 * (4 + 8)),
        # Numbers of 4 bytes, then narrower ones, their copies in 4 bytes, and the output; a condition is not copied.
        (lambda x: x.half() + x, [(100, 40)], 4000 * (4 + 2 + 4 + 4)),
        (lambda x: x.clone().add_(x.half()), [(100, 40)], 4000 * (4 + 4 + 2 + 4)),
        (lambda x: x.half() > x, [(100, 40)], 4000 * (4 + 2 + 4 + 1)),
        (lambda x: x * (x > 0), [(100, 40)], 4000 * (4 + 1 + 4 + 4)),
        (lambda x: x + x[0].double(), [(100, 40)], 4000 * (4 + 8 + 8) + 40 * 8),
        (lambda x: torch.where(x > 0, x.half(), x), [(100, 40)], 4000 * (4 + 1 + 2 + 4 + 4)),
        (lambda x: torch.where(x > 0, x > 1, 0), [(100, 40)], 4000 * (4 + 1 + 1 + 8 + 8)),
        (lambda x: x.masked_fill(x > 0, 0.0), [(100, 40)], 4000 * (4 + 1 + 4)),
        (lambda x: x.half().mul_(x), [(100, 40)], 4000 * (4 + 2 + 4 + 4)),
        (lambda x: x.half().addcmul_(x, x), [(100, 40)], 4000 * (4 + 2 + 4 + 4)),
        (lambda x: x.half().clamp_(min=x), [(100, 40)], 4000 * (4 + 2 + 4 + 4)),
        (lambda x: x.half().lt_(x), [(100, 40)], 4000 * (4 + 2 + 4 + 4)),
        # Sorted numbers and their indices, and the places of one row; the sorted numbers may be thrown away.
        (lambda x: x.sort(), [(1000, 2)], 2000 * (4 + 4 + 8) + 2 * 8),
        (lambda x: x.sort(dim=0, stable=True), [(1000, 2)], 2000 * (4 + 4 + 8) + 1000 * 8),
        (lambda x: x.argsort(), [(1000, 2)], 2000 * (4 + 8 + 4) + 2 * 8),
        (lambda x: x.flatten().argsort(stable=True), [(1000, 2)], 2000 * (4 + 8 + 4 + 8)),
        # Positions, and these counted from the start of the dimension; without a dimension they are not.
        (lambda x: torch.take_along_dim(x, x.long(), 1), [(100, 40)], 4000 * (4 + 8 + 8 + 4)),
        (lambda x: torch.take_along_dim(x, x[:, :1].long(), 1), [(100, 40)], 4000 * 4 + 100 * (8 + 8 + 4)),
        (lambda x: torch.take_along_dim(x, x.long()), [(100, 40)], 4000 * (4 + 8 + 4)),
        # A boolean for each number; a number in the dtype of the result.
        (lambda x: x.any(1), [(100, 40)], 4000 * (4 + 1) + 100),
        (lambda x: x.all(), [(100, 40)], 4000 * (4 + 1) + 1),
        (lambda x: x.norm(dtype=torch.float64), [(100, 40)], 4000 * (4 + 8) + 8),
        (lambda x: x.nansum(1, dtype=torch.float64), [(100, 40)], 4000 * (4 + 8) + 800),
        # One dimension is rolled after the other.
        (lambda x: x.roll(3, 0), [(100, 40)], 4000 * (4 + 4)),
        (lambda x: x.roll((3, 4), (0, 1)), [(100, 40)], 4000 * (4 + 4 + 4)),
        (lambda x: x.roll((3, 4, 5), (0, 1, 2)), [(10, 10, 40)], 4000 * (4 + 4 + 4 + 4)),
        # Complex numbers, their complex absolute values, and the real parts of these.
        (lambda x: torch.view_as_complex(x).abs(), [(500, 2)], 500 * (8 + 8 + 4)),
        (lambda x: torch.view_as_complex(x).angle(), [(500, 2)], 500 * (8 + 8 + 4)),
        # The squares and twice their means; with a weight two products, and the reciprocal roots.
        (lambda x: F.rms_norm(x, (40,)), [(100, 40)], 4 * (2 * 4000 + 2 * 100)),
        (lambda x, weight: F.rms_norm(x, (40,), weight), [(100, 40), (40,)], 4 * (3 * 4000 + 40 + 100)),
        # Float16, its copy in float32, and the same in this; with a weight of float16 that in float32 too.
        (lambda x: F.rms_norm(x.half(), (40,)), [(100, 40)], 4000 * (4 + 2 + 4 + 4) + 2 * 400),
        # Mean and deviation of each row, in the dtype of the weights; rows with gaps between their numbers are copied.
        (lambda x: F.layer_norm(x, (40,)), [(100, 40)], 4 * (2 * 4000 + 2 * 100)),
        (lambda x: F.layer_norm(x.bfloat16(), (40,)), [(100, 40)], 4000 * (4 + 2 + 2) + 2 * 100 * 2),
        (lambda x, w: F.layer_norm(x.bfloat16(), (40,), w), [(100, 40), (40,)], 4000 * 8 + 160 + 2 * 100 * 4),
        (lambda x: F.layer_norm(x.t(), (100,)), [(100, 40)], 4 * (3 * 4000 + 2 * 40)),
        # The same of each of 2 x 4 groups; with the channels last, of 2 x 8 channels too.
        (lambda x: F.group_norm(x, 4), [(2, 8, 10)], 4 * (2 * 160 + 2 * 2 * 4)),
        (lambda x: F.group_norm(x.permute(0, 3, 1, 2), 4), [(2, 5, 5, 8)], 4 * (2 * 400 + 2 * 2 * 4 + 2 * 2 * 8)),
        # Mean, deviation, factor and addend of each channel of each sample, the last two in float32.
        (F.instance_norm, [(2, 8, 10)], 4 * (2 * 160 + 4 * 16)),
        (lambda x: F.instance_norm(x.bfloat16()), [(2, 8, 10)], 160 * (4 + 2 + 2) + 2 * 16 * (2 + 4)),
        # In eval mode factor and addend alone.
        (lambda x, y: F.batch_norm(x, y, y), [(2, 80, 10), (80,)], 4 * (2 * 1600 + 80 + 2 * 80)),
        (lambda x, y: F.batch_norm(x.bfloat16(), y, y), [(2, 80, 10), (80,)], 1600 * (4 + 2 + 2) + 3 * 80 * 4),
        # Input and output, and both with the channels last, which images of one channel, or such images, are already.
        (lambda x: F.interpolate(x, scale_factor=2), [(1, 8, 10, 10)], 4 * 2 * (800 + 3200)),
        (lambda x: F.interpolate(x, size=(9, 7), mode="bilinear"), [(2, 3, 10, 10)], 4 * 2 * (600 + 378)),
        (lambda x: F.interpolate(x, scale_factor=2), [(1, 1, 10, 10)], 4 * (100 + 400)),
        (lambda x: F.interpolate(x.permute(0, 3, 1, 2), scale_factor=2), [(1, 10, 10, 8)], 4 * (800 + 3200)),
        # The place and the factor of one, two or four numbers of the input, for each place along a dimension.
        (lambda x: F.interpolate(x, scale_factor=2), [(1, 3, 100)], 4 * (300 + 600) + 200 * 12),
        (lambda x: F.interpolate(x, scale_factor=2, mode="linear"), [(1, 3, 100)], 4 * (300 + 600) + 200 * 2 * 12),
        (lambda x: F.interpolate(x, (90, 50), mode="bilinear"), [(1, 1, 9, 5)], 4 * (45 + 4500) + 140 * 2 * 12),
        (lambda x: F.interpolate(x, (9, 5), mode="bicubic"), [(1, 3, 9, 5)], 4 * 2 * 135 + 14 * 4 * 12),
        (lambda x: F.interpolate(x, (9, 5, 7)), [(1, 3, 9, 5, 7)], 4 * 2 * 945 + 21 * 12),
        (lambda x: F.interpolate(x.double(), (9, 5, 7), mode="trilinear"), [(1, 3, 9, 5, 7)], 20 * 945 + 21 * 2 * 16),
        (lambda x: F.interpolate(x.permute(0, 3, 1, 2), (90, 50)), [(1, 9, 5, 8)], 4 * (360 + 36_000)),
        # A mask, two positions of each element that it chooses, and these; rows of 40 are chosen by one position each.
        (lambda x: x[x > 0], [(100, 40)], 4000 * (4 + 1 + 2 * 8 + 4)),
        (lambda x: x[:, x[0, :, 0] > 0], [(5, 100, 40)], 20_000 * 4 + 100 * (1 + 8) + 20_000 * 4),
        (lambda x: x[(x > 0).all(1)], [(100, 40)], 4000 * 4 + 100 * (1 + 8) + 4000 * 4),
        # Positions in 32 bits become such in 64, of each pair.
        (lambda x: x[x[:, 0].int()], [(100, 40)], 4000 * (4 + 4) + 100 * (4 + 8)),
        (lambda x: x[x[:, :1].int(), x[0].int()], [(100, 40)], 4000 * (4 + 4 + 2 * 8) + 140 * 4),
        (lambda x: x.index_put((x[:, 0].int(),), x[0]), [(100, 40)], 4000 * (4 + 4) + 100 * (4 + 8)),
        # Rows, offsets, bags, and twice the bag of each row.
        (lambda x: F.embedding_bag(x.long(), x), [(100, 40)], 4000 * (4 + 8) + 100 * 8 + 4000 * (4 + 2 * 8)),
        # The scores in the dtype of the output, and scores with gaps without these.
        (lambda x: x.bfloat16().softmax(-1, dtype=torch.float32), [(100, 40)], 4000 * (4 + 2 + 4 + 4)),
        (lambda x: x.t().softmax(-1), [(50, 40)], 4 * 3 * 2000),
        (lambda x: torch.ops.aten._safe_softmax.default(x, -1), [(50, 40)], 2000 * (4 + 4 + 1) + 50 + 4),
        (lambda x: torch.ops.aten._safe_softmax.default(x, -1, torch.float64), [(50, 40)], 2000 * (4 + 8 + 8)),
    ],
)
def test_what_the_allocator_gives_out_beside_the_output(function: Any, shapes: Any, expected: int) -> None:
    model, inputs = Call(lambda self, *x: function(*x)), ModelInputs(*map(torch.ones, shapes))
    assert BACKEND.trace(model, inputs).memory.peak_bytes() == expected
    assert BACKEND.measure_memory(model, inputs) == pytest.approx(expected, abs=16)


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="other libraries transform in place")
@pytest.mark.parametrize(
    ("function", "shape", "expected"),
    [
        # 2 x 59 frames of 64 numbers that overlap, as in ``torch.stft``, their copy, and 33 complex numbers of each.
        (lambda x: torch.fft.rfft(x.unfold(1, 64, 16)), (2, 1000), 2 * 1000 * 4 + 2 * 59 * (64 * 4 + 33 * 8)),
        # Along the middle of three dimensions, which keeps the others from being one; along the first it does not.
        (lambda x: torch.fft.rfft(x, dim=1), (4, 20, 30), 2 * 2400 * 4 + 4 * 11 * 30 * 8),
        (lambda x: torch.fft.fft(x, dim=-3), (4, 20, 30), 2400 * (4 + 8)),
    ],
)
def test_a_transform_copies_what_lies_apart(function: Any, shape: tuple[int, ...], expected: int) -> None:
    model, inputs = Call(lambda self, x: function(x)), ModelInputs(torch.ones(shape))
    assert BACKEND.trace(model, inputs).memory.peak_bytes() == BACKEND.measure_memory(model, inputs) == expected


@pytest.mark.parametrize(
    ("function", "inside"),
    [
        (lambda x: F.rms_norm(x, (40,)), 0),
        (lambda x: F.layer_norm(x, (40,)), 2 * 100 * 4),  # statistics in float32
        (lambda x: x.mean(1), 0),
    ],
)
def test_a_model_on_the_meta_device_has_no_copies_of_the_cpu(function: Any, inside: int) -> None:
    """Its kernels are those of an accelerator: what there is at the end is all, beside statistics."""
    model, x = Call(lambda self, x: function(x + self.weight)), torch.ones(100, 40, dtype=torch.bfloat16, device="meta")
    model.weight = nn.Parameter(torch.ones(40, dtype=torch.bfloat16, device="meta"))
    memory = BACKEND.trace(model, ModelInputs(x)).memory
    assert memory.live_bytes[-1] - memory.live_bytes[0] == function(x).nbytes + inside


def test_a_vector_times_matrices_is_taken_apart_as_in_a_run() -> None:
    """Torch's decomposition in Python copies the matrices; a run that differentiates no weight does not."""
    vector, matrices = torch.ones(10), torch.ones(5, 10, 5)
    model, inputs = Call(lambda self, x, y: x @ y), ModelInputs(vector, matrices)
    assert BACKEND.trace(model, inputs).memory.peak_bytes() == vector.nbytes + matrices.nbytes + 5 * 5 * 4
    assert BACKEND.measure_memory(model, inputs) == vector.nbytes + matrices.nbytes + 5 * 5 * 4


#: Rows of 64 numbers as an operator gets them: repeated, and every second one of each row of a tensor twice as wide.
APART: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "side by side": lambda x: x[:32].view(64, 64),
    "repeated": lambda x: x[:1, :64].expand(64, 64),
    "with gaps": lambda x: x[:, ::2],
}
#: By name: a function of these, the bytes that it makes beside its input, without and with a copy of what lies apart.
OF_ROWS: dict[str, tuple[Callable[[torch.Tensor], Any], int, int]] = {
    # The result, and one matrix of three.
    "bmm": (lambda x: torch.bmm(x.expand(3, 64, 64), torch.ones(1, 64, 64).expand(3, 64, 64)), 4 * 16384, 16384),
    # The loss of each row's class, the classes, and how many they are.
    "nll_loss": (lambda x: F.nll_loss(x, torch.zeros(64, dtype=torch.long)), 64 * 8 + 4 + 4, 16384),
    "nll_loss of each": (
        lambda x: F.nll_loss(x, torch.zeros(64, dtype=torch.long), reduction="none"),
        64 * 8 + 64 * 4 + 4,
        0,
    ),
    # The factor of the input, the logarithm of its sigmoid, and the target.
    "binary_cross_entropy_with_logits": (
        lambda x: F.binary_cross_entropy_with_logits(x, torch.ones(64, 64), reduction="none"),
        3 * 16384,
        16384,
    ),
    "bucketize": (lambda x: torch.bucketize(x, torch.zeros(4)), 16 + 64 * 64 * 8, 16384),
    "rfft": (torch.fft.rfft, 64 * 33 * 8, 16384),
    # The gradient of a GELU by that of its output: its input, the number one, and the result.
    "gelu": (lambda x: torch.ops.aten.gelu_backward(x, torch.ones(64, 64)), 2 * 16384, 16384),
}


@pytest.mark.filterwarnings("ignore:torch.searchsorted")
@pytest.mark.parametrize("rows", APART)
@pytest.mark.parametrize("name", OF_ROWS)
def test_an_operator_copies_rows_that_lie_apart(name: str, rows: str) -> None:
    """By hand and by the allocator; a transform takes rows with gaps as they are."""
    function, made, copied = OF_ROWS[name]
    x = torch.rand(64, 128)
    model = Call(lambda self, x: function(APART[rows](x)))
    is_copied = rows == "repeated" or (rows == "with gaps" and name != "rfft")
    expected = x.nbytes + made + (copied if is_copied else 0)
    with one_thread():
        measured = BACKEND.measure_memory(model, ModelInputs(x))
    peak = BACKEND.trace(model, ModelInputs(x)).memory.peak_bytes()
    assert peak == pytest.approx(measured, abs=32)
    assert peak == pytest.approx(expected, abs=32)
