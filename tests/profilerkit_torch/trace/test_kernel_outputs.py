"""What kernels return, and those for meta tensors do not: other layouts, fewer tensors, and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from measured_steps import measure_step
from tiny import BACKEND, Call, step, trace, trace_complete
from torch import nn
from torch.nn import functional as F

from profilerkit import ModelInputs, profile


@pytest.mark.parametrize(
    ("norm", "shape", "weights", "statistics", "inside"),
    [
        (nn.BatchNorm1d(64), (32, 64), 64, 64, 0),
        (nn.GroupNorm(2, 64), (32, 64), 64, 2 * 32, 2 * 32 * 64),
        (nn.LayerNorm(64), (32, 64), 64, 32, 0),
    ],
)
def test_an_input_without_a_gradient_gets_none(
    norm: nn.Module, shape: tuple[int, ...], weights: int, statistics: int, inside: int
) -> None:
    """Input, output, its gradient, those of weight and bias, and mean and deviation of each group: in float32.

    The gradient of a group norm also has two sums inside, for each channel of each sample.
    """
    x = torch.randn(shape)
    expected = 3 * x.nbytes + 2 * weights * 4 + 2 * statistics * 4 + inside * 4
    assert step(norm.train(), x).memory.peak_bytes(include_weights=False) == expected


def test_a_frozen_batch_norm_saves_no_statistics() -> None:
    """At its gradient there are the outputs of both layers, the gradients of both, and those of the norm's weights."""

    def convolve(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))  # type: ignore[no-any-return]

    norm = nn.BatchNorm2d(8)
    model = Call(convolve, conv=nn.Conv2d(3, 8, 3, bias=False), norm=norm).train()
    norm.eval()
    x = torch.randn(2, 3, 10, 10)
    image = 2 * 8 * 8 * 8 * 4
    assert step(model, x).memory.peak_bytes(include_weights=False) == x.nbytes + 4 * image + 2 * 8 * 4


ROWS, BAGS, WIDTH = 80, 8, 16


@pytest.mark.parametrize(
    ("options", "returned"),
    [
        ({"mode": "sum"}, 2 * BAGS * 8),  # the size of each bag, and a number for each that means nothing
        ({"mode": "mean"}, 2 * BAGS * 8 + ROWS * 8),  # and the bag of each row
        ({"mode": "max"}, BAGS * 8 + ROWS * 8 + BAGS * WIDTH * 8),  # and the row of each largest element
        ({"mode": "sum", "padding_idx": 0}, 2 * BAGS * 8 + ROWS * 8),
        ({"mode": "sum", "dtype": torch.float64}, 2 * BAGS * 8 + ROWS * 8),
        ({"mode": "sum", "dtype": torch.bfloat16}, 2 * BAGS * 8),
    ],
)
def test_bags_on_the_cpu_return_what_their_kernel_needs(options: dict[str, Any], returned: int) -> None:
    bag = nn.EmbeddingBag(100, WIDTH, **options)
    output = BAGS * WIDTH * bag.weight.element_size()
    rows, starts = torch.arange(ROWS), torch.arange(0, ROWS, ROWS // BAGS)
    memory = BACKEND.trace(bag, ModelInputs(rows, starts)).memory
    inputs = rows.nbytes + starts.nbytes
    at_begin = 2 * ROWS * 8 if returned > 2 * BAGS * 8 else 0  # two sums give the bag of each row, the rest comes after
    assert memory.peak_bytes(include_weights=False) == inputs + output + max(returned, at_begin)
    kept = torch.embedding_bag(bag.weight, rows, starts, mode=("sum", "mean", "max").index(options["mode"]))[1:]
    if "padding_idx" not in options:
        assert sum(tensor.nbytes for tensor in kept) == returned, "what the kernel itself returns"


def test_derivatives_of_zero_have_no_memory() -> None:
    """A layer differentiated along a direction: the weight's derivative is zero, and has no memory by itself.

    Its product needs it in the weight's size: there are the direction, the output, the zero, its copy and the product.
    """

    def push_forward(self: Any, x: torch.Tensor) -> Any:
        return torch.func.jvp(self.layer, (x,), (torch.ones_like(x),))

    x, output, weight = torch.randn(8, 32), 8 * 512 * 4, 32 * 512 * 4
    model = Call(push_forward, layer=nn.Linear(32, 512))
    found = trace_complete(model, x)
    expected = 2 * x.nbytes + 2 * output + 4 + weight
    assert found.memory.peak_bytes(include_weights=False) == expected
    assert BACKEND.measure_memory(model, ModelInputs(x)) == expected
    assert found.macs == 3 * 8 * 32 * 512


def test_the_allocator_gives_a_lone_norm_as_much() -> None:
    x = torch.randn(32, 64)
    predicted = step(nn.BatchNorm1d(64).train(), x).memory.peak_bytes(include_weights=False) - x.nbytes
    inside = 512  # of the kernel of the gradients: a sum for each of weight and bias
    assert measure_step(nn.BatchNorm1d(64).train(), x) == pytest.approx(predicted + inside, abs=8)


#: How a batch of four channels may be laid out.
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "a part": lambda x: x[:, :, ::2, 1:],
    "a part with channels last": lambda x: x.to(memory_format=torch.channels_last)[:, :, 1:, 1:],
}


def _attention(*shape: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def attend(x: torch.Tensor) -> torch.Tensor:
        query = x.permute(*shape)
        return F.scaled_dot_product_attention(query, query, query)

    return attend


OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Conv2d": nn.Conv2d(4, 6, 3),
    "Conv2d by groups": nn.Conv2d(4, 8, 1, groups=4),
    "Conv2d, padding by name": nn.Conv2d(4, 6, 3, padding="same"),
    "Conv2d, weights with channels last": nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last),  # type: ignore[call-overload]
    "ConvTranspose2d": nn.ConvTranspose2d(4, 6, 2, stride=2),
    "BatchNorm2d": nn.BatchNorm2d(4).eval(),
    "GroupNorm": nn.GroupNorm(2, 4),
    "InstanceNorm2d": nn.InstanceNorm2d(4),
    "MaxPool2d": nn.MaxPool2d(2),
    "AvgPool2d": nn.AvgPool2d(2),
    "AdaptiveAvgPool2d": nn.AdaptiveAvgPool2d(2),
    "Upsample": nn.Upsample(scale_factor=2),
    "Upsample, bilinear": nn.Upsample(scale_factor=2, mode="bilinear"),
    "ReflectionPad2d": nn.ReflectionPad2d(1),
    "ReplicationPad2d": nn.ReplicationPad2d(1),
    "ZeroPad2d": nn.ZeroPad2d(1),
    "ChannelShuffle": nn.ChannelShuffle(2),
    "SiLU": nn.SiLU(),
    "Softmax": nn.Softmax(1),
    "roll": lambda x: x.roll(1, 2),
    "cat": lambda x: torch.cat([x, x], 1),
    "attention": _attention(0, 1, 2, 3),
    "attention, heads behind": _attention(0, 2, 1, 3),
    "attention, width not last": _attention(0, 2, 3, 1),
    "attention, width before": _attention(0, 1, 3, 2),
}


def tell(operator: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """Return a model that notes how each output of an operator is laid out."""

    def run(self: Any, x: torch.Tensor) -> Any:
        result = self.operator(x)
        TOLD.append(result.stride())
        return result

    return Call(run, operator=operator)


TOLD: list[tuple[int, ...]] = []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_output_is_laid_out_as_in_a_run(name: str, layout: str) -> None:
    model, x = tell(OPERATORS[name]).eval(), LAYOUTS[layout](torch.randn(2, 4, 9, 8))
    TOLD.clear()
    with torch.no_grad():
        model(x)
    report = profile(model, x, metrics=["macs"])
    assert report.status("macs").completeness.value == "complete"
    assert TOLD[0] == TOLD[-1]


@pytest.mark.parametrize(
    ("operator", "shape"),
    [
        (nn.Conv3d(4, 6, 3), (2, 4, 5, 6, 7)),
        (nn.ConvTranspose3d(4, 6, 2), (2, 4, 5, 6, 7)),
        (nn.GroupNorm(2, 4), (2, 4, 5, 6, 7)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_volumes_with_channels_last_keep_them(operator: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape).to(memory_format=torch.channels_last_3d)
    TOLD.clear()
    profile(tell(operator), x, metrics=["macs"])
    assert TOLD[-1][1] == 1


@pytest.mark.parametrize(
    "operator", [nn.MaxPool1d(2), nn.BatchNorm1d(4).eval()], ids=lambda value: type(value).__name__
)
def test_a_row_of_channels_is_made_contiguous(operator: nn.Module) -> None:
    TOLD.clear()
    profile(tell(operator), torch.randn(2, 9, 4).transpose(1, 2), metrics=["macs"])
    assert TOLD[-1][-1] == 1


def test_a_model_that_asks_for_the_layout_is_counted_as_it_runs() -> None:
    """36 pixels: 4 * 8 MACs each for the first layer, 8 * 8 for each time through the other."""

    def ask(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for _ in range(1 if x.is_contiguous() else 3):
            x = self.layer(x)
        return x

    model = Call(ask, first=nn.Conv2d(4, 8, 1), layer=nn.Conv2d(8, 8, 1, bias=False))
    x = torch.randn(1, 4, 6, 6)
    assert profile(model, x, metrics=["macs"])["macs"] == 36 * (32 + 64)
    last = x.to(memory_format=torch.channels_last)
    assert profile(model, last, metrics=["macs"])["macs"] == 36 * (32 + 3 * 64)


@pytest.mark.parametrize(
    ("function", "shape", "weight"),
    [
        (F.linear, (2, 4), (3, 4)),
        (F.linear, (2, 5, 4), (3, 4)),
        (lambda x, weight: F.linear(x.to(weight.dtype), weight, x[0, :3]), (2, 4), (3, 4)),
        (torch.mm, (2, 4), (4, 3)),
        (torch.mv, (2, 4), (4,)),
        (torch.bmm, (2, 3, 4), (2, 4, 3)),
        (F.conv1d, (1, 3, 8), (4, 3, 3)),
        (lambda x, weight: F.conv2d(x, weight, padding="same"), (1, 3, 8, 8), (4, 3, 3, 3)),
        (F.conv3d, (1, 3, 8, 8, 8), (4, 3, 3, 3, 3)),
        (F.conv_transpose1d, (1, 3, 8), (3, 4, 3)),
        (F.conv_transpose2d, (1, 3, 8, 8), (3, 4, 3, 3)),
        (F.conv_transpose3d, (1, 3, 8, 8, 8), (3, 4, 3, 3, 3)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_a_product_of_two_dtypes_fails_as_in_a_run(function: Any, shape: Any, weight: Any, dtype: torch.dtype) -> None:
    model = Call(lambda self, x: function(x, self.weight), weight=nn.Parameter(torch.ones(weight).bfloat16()))
    x = torch.ones(shape, dtype=dtype)
    with pytest.raises(RuntimeError) as raised:
        model(x)
    assert str(raised.value).split("\n", 1)[0] in str(trace(model, x).failure)
    assert "type" in str(trace(model.to("meta"), x.to("meta")).failure)


def test_two_dtypes_that_kernels_take_are_counted() -> None:
    """A norm with weights in float32, as in a model under autocast; and a model that casts where a product failed."""

    def cast_at_need(self: Any, x: torch.Tensor) -> torch.Tensor:
        try:
            return self.layer(x)  # type: ignore[no-any-return]
        except RuntimeError:
            return self.layer(x.to(torch.bfloat16))  # type: ignore[no-any-return]

    trace_complete(nn.LayerNorm(8), torch.ones(2, 8, dtype=torch.bfloat16))
    assert trace_complete(Call(cast_at_need, layer=nn.Linear(8, 4).bfloat16()), torch.ones(2, 8)).macs == 2 * 8 * 4
