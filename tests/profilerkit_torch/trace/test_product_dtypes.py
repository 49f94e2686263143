"""Products count in the dtype of what they multiply, also where they write a wider one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from profilerkit import predict, profile

ONE = torch.ones(())


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any], **weights: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, weight in weights.items():
            self.register_buffer(name, weight)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


def scaled(model: Any, x: torch.Tensor) -> torch.Tensor:
    return torch._scaled_mm(x, model.weight, ONE, ONE, out_dtype=torch.bfloat16)


def test_products_of_eight_bit_floats_write_wider_ones() -> None:
    weight = torch.zeros(16, 32).to(torch.float8_e4m3fn).t()
    model, x = Function(scaled, weight=weight), torch.zeros(4, 32).to(torch.float8_e4m3fn)
    assert profile(model, x, metrics=["macs_by_dtype"])["macs_by_dtype"] == {"float8_e4m3fn": 4 * 32 * 16}
    # Of an H100 the peak of float8, 1978.9e12: not that of bfloat16, nor the sparse one.
    assert predict(model, x, on="h100").bound.products == pytest.approx(2 * 4 * 32 * 16 / 1978.9e12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_others_count_in_what_they_write(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 4)).to(dtype)
    counted = profile(model, torch.zeros(1, 1, 4, 4, dtype=dtype), metrics=["macs_by_dtype"])["macs_by_dtype"]
    assert counted == {str(dtype).removeprefix("torch."): 2 * 9 * 4 + 8 * 4}


@pytest.mark.parametrize(
    ("multiplied", "counted"), [(torch.int8, "int8"), (torch.int32, "int32"), (torch.int64, "int64")]
)
def test_integers_count_in_what_is_multiplied(multiplied: torch.dtype, counted: str) -> None:
    product = torch._int_mm if multiplied is torch.int8 else torch.mm  # the first writes int32
    model = Function(lambda model, x: product(x, model.weight), weight=torch.ones(8, 16, dtype=multiplied))
    x = torch.ones(32, 8, dtype=multiplied)
    assert profile(model, x, metrics=["macs_by_dtype"])["macs_by_dtype"] == {counted: 32 * 8 * 16}


def test_weights_in_eight_bits_alone_are_unpacked_first() -> None:
    def product(model: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, model.weight.to(x.dtype))

    model = Function(product, weight=torch.zeros(8, 4, dtype=torch.int8))
    assert profile(model, torch.zeros(2, 8), metrics=["macs_by_dtype"])["macs_by_dtype"] == {"float32": 2 * 8 * 4}


def test_the_kernel_for_weights_in_eight_bits_multiplies_what_it_gets() -> None:
    def product(model: Any, x: torch.Tensor) -> torch.Tensor:
        return torch._weight_int8pack_mm(x, model.weight, model.scales)

    scales = torch.ones(16, dtype=torch.bfloat16)
    model = Function(product, weight=torch.zeros(16, 32, dtype=torch.int8), scales=scales)
    counted = profile(model, torch.zeros(4, 32, dtype=torch.bfloat16), metrics=["macs_by_dtype"])["macs_by_dtype"]
    assert counted == {"bfloat16": 4 * 32 * 16}
