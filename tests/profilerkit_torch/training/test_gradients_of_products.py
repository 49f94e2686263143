"""The gradient of a product takes as many multiply-accumulates for each factor as the product itself.

So it is for every operator that multiplies matrices, and vectors as matrices of one row or column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from profilerkit import profile

#: Each operator with the shapes of its factors (or addend and factors), and its multiply-accumulates.
SHAPES: list[tuple[str, Callable[..., Any], list[tuple[int, ...]], int]] = [
    ("mv", torch.mv, [(5, 8), (8,)], 40),
    ("mv of a row", torch.mv, [(1, 8), (8,)], 8),
    ("mv of a column", torch.mv, [(5, 1), (1,)], 5),
    ("dot", torch.dot, [(5,), (5,)], 5),
    ("vdot", torch.vdot, [(5,), (5,)], 5),
    ("inner of vectors", torch.inner, [(5,), (5,)], 5),
    ("inner of matrices", torch.inner, [(3, 5), (4, 5)], 60),
    ("addmv", torch.addmv, [(5,), (5, 8), (8,)], 40),
    ("addr", torch.addr, [(5, 8), (5,), (8,)], 40),
    ("mm", torch.mm, [(5, 8), (8, 3)], 120),
    ("mm with a column", torch.mm, [(5, 8), (8, 1)], 40),
    ("mm of a column and a row", torch.mm, [(5, 1), (1, 8)], 40),
    ("addmm", torch.addmm, [(5, 3), (5, 8), (8, 3)], 120),
    ("bmm", torch.bmm, [(2, 5, 8), (2, 8, 3)], 240),
    ("baddbmm", torch.baddbmm, [(2, 5, 3), (2, 5, 8), (2, 8, 3)], 240),
    ("addbmm", torch.addbmm, [(5, 3), (2, 5, 8), (2, 8, 3)], 240),
    ("matmul, vector and matrix", torch.matmul, [(8,), (8, 3)], 24),
    ("matmul, matrix and vector", torch.matmul, [(5, 8), (8,)], 40),
    ("matmul, vectors", torch.matmul, [(8,), (8,)], 8),
    ("matmul, batch and vector", torch.matmul, [(2, 5, 8), (8,)], 80),
    ("matmul, vector and batch", torch.matmul, [(8,), (2, 8, 3)], 48),
    ("matmul, batch and matrix", torch.matmul, [(2, 5, 8), (8, 3)], 240),
    ("matmul, matrix and batch", torch.matmul, [(5, 8), (2, 8, 3)], 240),
    ("matmul that broadcasts", torch.matmul, [(2, 1, 5, 8), (3, 8, 3)], 720),
    ("linear of a vector", F.linear, [(8,), (3, 8)], 24),
    ("linear of a vector, with bias", F.linear, [(8,), (3, 8), (3,)], 24),
    ("linear with one output", F.linear, [(2, 8), (8,)], 16),
    ("linear of a batch", F.linear, [(2, 4, 8), (3, 8), (3,)], 192),
    ("einsum, matrix and vector", lambda a, b: torch.einsum("ij,j->i", a, b), [(5, 8), (8,)], 40),
    ("einsum, vectors", lambda a, b: torch.einsum("i,i->", a, b), [(5,), (5,)], 5),
    ("einsum, matrices", lambda a, b: torch.einsum("ij,jk->ik", a, b), [(5, 8), (8, 3)], 120),
    ("tensordot", lambda a, b: torch.tensordot(a, b, 1), [(8,), (8, 3)], 24),
    ("multi_dot", lambda *factors: torch.linalg.multi_dot(factors), [(5, 8), (8, 3), (3,)], 8 * 3 + 5 * 8),
    ("1 x 1 convolution", F.conv2d, [(2, 3, 4, 4), (5, 3, 1, 1)], 2 * 16 * 15),
    ("attention", F.scaled_dot_product_attention, [(1, 2, 5, 4)] * 3, 2 * 25 * 8),
]


class Product(nn.Module):
    def __init__(self, function: Callable[..., Any], shapes: list[tuple[int, ...]], dtype: torch.dtype) -> None:
        super().__init__()
        self.function = function
        self.factors = nn.ParameterList(nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in shapes)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(*self.factors)


def counts(model: nn.Module) -> tuple[Any, Any]:
    report = profile(model, torch.ones(1), metrics=["macs", "training_macs"])
    return report["macs"], report["training_macs"] - report["macs"]


@pytest.mark.parametrize(("function", "shapes", "macs"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_the_gradient_by_both_factors_is_two_products(
    function: Callable[..., Any], shapes: list[tuple[int, ...]], macs: int
) -> None:
    assert counts(Product(function, shapes, torch.float32)) == (macs, 2 * macs)


@pytest.mark.parametrize(("function", "shapes", "macs"), [row[1:] for row in SHAPES[:9]], ids=lambda value: None)
def test_so_it_is_of_complex_numbers(function: Callable[..., Any], shapes: list[tuple[int, ...]], macs: int) -> None:
    def size(*factors: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(function(*factors))

    assert counts(Product(size, shapes, torch.complex64)) == (4 * macs, 8 * macs)


def test_what_is_no_gradient_of_a_product_stays_a_multiplication() -> None:
    """An outer product has no sum, and neither have its gradients; a factor of addmv scales without products."""
    assert counts(Product(torch.outer, [(5,), (8,)], torch.float32)) == (0, 0)
    assert counts(Product(torch.mul, [(5, 8), (8,)], torch.float32)) == (0, 0)
    scaled = Product(lambda c, a, x: torch.addmv(c, a, x, beta=2, alpha=3), [(5,), (5, 8), (8,)], torch.float32)
    assert counts(scaled) == (40, 80)


@pytest.mark.parametrize("frozen", [0, 1])
def test_only_gradients_that_are_wanted_count(frozen: int) -> None:
    model = Product(torch.mv, [(5, 8), (8,)], torch.float32)
    model.factors[frozen].requires_grad_(False)
    assert counts(model) == (40, 40)
