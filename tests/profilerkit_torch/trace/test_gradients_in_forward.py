"""Models that compute gradients in their forward pass: their memory by hand, and by the allocator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call
from torch.nn import functional as F
from torch_threads import one_thread

from profilerkit import ModelInputs

#: Numbers in each tensor, of 64 rows.
SIZE = 64 * 64
FLOAT, INT = 4, 8


def compare(function: Callable[..., Any], *args: torch.Tensor, **attributes: Any) -> tuple[int, int]:
    """Return the bytes at the peak of a trace and by the allocator; the trace must be complete."""
    model, inputs = Call(lambda self, *args: function(*args), **attributes), ModelInputs(*args)
    memory = BACKEND.trace(model, inputs).memory
    assert memory.missing == ()
    with one_thread():
        return memory.peak_bytes(), BACKEND.measure_memory(model, inputs)


def differentiate(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Any:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x), x)


#: By name: a function, and the bytes at the peak of its gradient.
GRADIENTS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], int]] = {
    # The input, the mask, its ones counted in int64, and the gradient; the maximum, and the gradient of it.
    "maximum": (lambda x: x.max(), SIZE * (FLOAT + 1 + INT + FLOAT) + 2 * FLOAT),
    "minimum": (lambda x: x.min(), SIZE * (FLOAT + 1 + INT + FLOAT) + 2 * FLOAT),
    # The input and the gradient, which is written to zeros; the place of each of 64 maxima, the sum, its gradient.
    "maxima of rows": (lambda x: x.max(1)[0].sum(), 2 * SIZE * FLOAT + 64 * INT + 2 * FLOAT),
    # The input, and one tensor of products or the gradient; the product and its gradient.
    "product": (lambda x: x.prod(), 3 * SIZE * FLOAT + 2 * FLOAT),
    # The input, three gradients of which the second is added to the first, and the cosine that is multiplied.
    "sum of three": (lambda x: (x.exp() + x.sin() + x.cos()).sum(), 5 * SIZE * FLOAT + 2 * FLOAT),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_in_a_forward_pass_takes_what_torch_takes_without_a_mode(name: str) -> None:
    function, expected = GRADIENTS[name]
    predicted, measured = compare(lambda x: differentiate(function, x), torch.randn(64, 64))
    assert predicted == pytest.approx(expected, abs=4 * FLOAT)
    assert predicted == pytest.approx(measured, abs=4 * FLOAT)


def test_two_gradients_of_one_tensor_are_added_in_place_in_a_transform() -> None:
    """The input, its square, and both gradients: the second is added to the first."""
    predicted, measured = compare(lambda x: torch.func.vjp(lambda h: h * h.t(), x)[1](x), torch.randn(64, 64))
    assert predicted == measured == 4 * SIZE * FLOAT


def test_one_tensor_as_query_key_and_value_has_its_gradients_added_in_place() -> None:
    """Input, output and three gradients, and the sums of the rows of 4 heads; the allocator has a workspace besides.

    The heads of each row are side by side, so that the gradient of the output is not copied.
    """
    x = torch.randn(4, 192, 4, 16).transpose(1, 2)
    attend = F.scaled_dot_product_attention
    predicted, measured = compare(lambda x: torch.func.vjp(lambda h: attend(h, h, h), x)[1](x), x)
    assert predicted == 5 * x.nbytes + 4 * 4 * 192 * FLOAT
    assert predicted <= measured


@pytest.mark.parametrize("full", [False, True])
def test_a_function_of_torchs_frees_an_argument_that_it_replaces(full: bool) -> None:
    """Nobody else holds the variance of a Gaussian loss, of which the loss makes a copy.

    At the peak there are the input, the copy, its logarithm, and a quotient beside the square that it is made of; and
    the variance, if Python keeps the arguments of a call until its end, as while a function follows all calls.
    """
    x, target = torch.randn(64, 64), torch.zeros(64, 64)
    predicted, measured = compare(lambda x: F.gaussian_nll_loss(x, target, x.exp(), full=full, reduction="sum"), x)
    assert predicted == measured
    assert measured in (5 * SIZE * FLOAT, 6 * SIZE * FLOAT)
