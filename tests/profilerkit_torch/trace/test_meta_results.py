"""What kernels return, and those for meta tensors do not, or more than they: by hand, and by the allocator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from measured_steps import measure_step
from tiny import BACKEND, Call, step, trace_complete
from torch import nn

from profilerkit import ModelInputs


@pytest.mark.parametrize(
    ("norm", "shape", "weights", "statistics"),
    [
        (nn.BatchNorm1d(64), (32, 64), 64, 64),
        (nn.GroupNorm(2, 64), (32, 64), 64, 2 * 32),
        (nn.LayerNorm(64), (32, 64), 64, 32),
    ],
)
def test_an_input_without_a_gradient_gets_none(
    norm: nn.Module, shape: tuple[int, ...], weights: int, statistics: int
) -> None:
    """Input, output, its gradient, those of weight and bias, and mean and deviation of each group: in float32."""
    x = torch.randn(shape)
    expected = 3 * x.nbytes + 2 * weights * 4 + 2 * statistics * 4
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
    assert memory.peak_bytes(include_weights=False) == inputs + output + returned
    kept = torch.embedding_bag(bag.weight, rows, starts, mode=("sum", "mean", "max").index(options["mode"]))[1:]
    if "padding_idx" not in options:
        assert sum(tensor.nbytes for tensor in kept) == returned, "what the kernel itself returns"


def test_derivatives_of_zero_have_no_memory() -> None:
    """A layer differentiated along a direction: the weight's derivative is zero, and of the weight's size.

    There are the direction, the output, its two products, a copy that stands for their sum with the bias's derivative
    of zero, and the sum of both.
    """

    def push_forward(self: Any, x: torch.Tensor) -> Any:
        return torch.func.jvp(self.layer, (x,), (torch.ones_like(x),))

    x, output = torch.randn(8, 32), 8 * 512 * 4
    found = trace_complete(Call(push_forward, layer=nn.Linear(32, 512)), x)
    assert found.memory.peak_bytes(include_weights=False) == 2 * x.nbytes + 5 * output
    assert found.macs == 3 * 8 * 32 * 512


def test_the_allocator_gives_a_lone_norm_as_much() -> None:
    x = torch.randn(32, 64)
    predicted = step(nn.BatchNorm1d(64).train(), x).memory.peak_bytes(include_weights=False) - x.nbytes
    inside = 512  # of the kernel of the gradients: a sum for each of weight and bias
    assert measure_step(nn.BatchNorm1d(64).train(), x) == pytest.approx(predicted + inside, abs=8)
