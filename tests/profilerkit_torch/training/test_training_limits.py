"""Where a training step is a lower bound, is run for real, or fails: what is said then."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import BACKEND, ByValue, Call, ones, step, trace_complete_step
from torch import nn
from torch.utils.checkpoint import checkpoint

from profilerkit import ModelInputs
from profilerkit.costs import Cost
from profilerkit_torch import register_module_cost, register_op_cost
from profilerkit_torch.costs import scoped_costs

N = 5


def _apply(function: Any, *given: torch.Tensor) -> Any:
    return function.apply(*given)


# Formulas of the user's ---------------------------------------------------------------------------------------------


class Opaque(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x)
        return out


def test_a_formula_of_a_module_is_of_its_forward_pass_and_the_step_a_lower_bound() -> None:
    """Backward its operators count as they are seen; what they leave out, nobody knows."""
    with scoped_costs():
        register_module_cost(Opaque, lambda module, inputs, outputs: Cost.of_macs(1000))
        found = step(nn.Sequential(nn.Linear(4, 4), Opaque(), Opaque()), ones(N, 4))
        frozen_ones = step(nn.Sequential(Opaque().requires_grad_(False)), ones(N, 4))
    assert found.missing == ("backward of module::Opaque (2 calls)",)
    assert found.macs == N * 16 * 2 + 2 * (1000 + 2 * N * 16)
    assert (frozen_ones.missing, frozen_ones.macs) == ((), 1000), "nothing is to be differentiated there"


class Found:
    """What a model returns: no structure of torch's."""

    def __init__(self, out: torch.Tensor) -> None:
        self.out = out


class OpaqueInside(Opaque):
    def forward(self, x: torch.Tensor) -> Any:
        return Found(super().forward(x))


def test_a_formula_of_a_module_that_returns_an_object_leaves_the_step_a_lower_bound_too() -> None:
    with scoped_costs():
        register_module_cost(OpaqueInside, lambda module, inputs, outputs: Cost.of_macs(1000))
        found = step(Call(lambda self, x: self.opaque(x).out, opaque=OpaqueInside()), ones(N, 4))
    assert found.missing == ("backward of module::OpaqueInside (1 call)",)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_formula_of_a_module_in_a_checkpoint_leaves_the_step_a_lower_bound(use_reentrant: bool) -> None:
    """Each call is differentiated once: a reentrant checkpoint goes through the nodes of its second forward pass.

    The other kind stops that pass before the last module is through, so that its formula is not asked again.
    """
    model = Call(
        lambda self, x: checkpoint(self.block, self.first(x), use_reentrant=use_reentrant),
        first=nn.Linear(4, 4),
        block=nn.Sequential(Opaque(), Opaque()),
    )
    with scoped_costs():
        register_module_cost(Opaque, lambda module, inputs, outputs: Cost.of_macs(1000))
        found = step(model, ones(N, 4))
    stopped = () if use_reentrant else ("module::Opaque (1 call)",)
    assert sorted(found.missing) == ["backward of module::Opaque (2 calls)", *stopped]
    assert found.macs == N * 16 * 2 + 2 * 2 * N * 16 + (4 - len(stopped)) * 1000


@torch.library.custom_op("profilerkittest::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("profilerkittest::doubled_backward", mutates_args=())
def doubled_backward(gradient: torch.Tensor) -> torch.Tensor:
    return gradient * 2


doubled.register_fake(torch.empty_like)
doubled_backward.register_fake(torch.empty_like)
doubled.register_autograd(lambda ctx, gradient: doubled_backward(gradient))


def test_an_unknown_operator_of_the_backward_pass_is_named() -> None:
    model = Call(lambda self, x: doubled(self.linear(x)), linear=nn.Linear(4, 4))
    assert step(model, ones(N, 4)).missing == (
        "profilerkittest::doubled (1 call)",
        "profilerkittest::doubled_backward (1 call)",
    )
    with scoped_costs():
        for name in ("doubled", "doubled_backward"):
            register_op_cost(f"profilerkittest::{name}", lambda x, *, out: Cost(0, out.numel))
        assert trace_complete_step(model, ones(N, 4)).flops == 2 * (2 * N * 16 + N * 4) + 2 * N * 4


# Where shapes alone are not enough ----------------------------------------------------------------------------------


def test_a_backward_pass_that_needs_values_is_run_for_real_and_says_so() -> None:
    found = step(Call(lambda self, x: _apply(ByValue, self.linear(x)), linear=nn.Linear(4, 4)), ones(N, 4))
    assert found.method == "a real run"
    assert found.macs == 2 * N * 16
    assert "on shapes alone the model raised" in found.notes[-1]


def test_a_model_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    assert trace_complete_step(model, ones(N, 4)).macs == N * (2 * 32 + 3 * 16)


def test_lazy_weights_get_their_sizes() -> None:
    first = nn.LazyLinear(8)
    model = nn.Sequential(first, nn.Linear(8, 2))
    assert trace_complete_step(model, ones(N, 4)).macs == N * (2 * 32 + 3 * 16)
    assert nn.parameter.is_lazy(first.weight)


# Failures -----------------------------------------------------------------------------------------------------------


def test_a_model_that_raises_leaves_its_layers() -> None:
    found = BACKEND.trace_training(nn.Linear(4, 3), ModelInputs(ones(N, 5)))
    assert str(found.failure).startswith("the model raised RuntimeError: ")
    assert [layer.type for layer in found.layers] == ["Linear"]


def test_a_backward_pass_that_raises_is_told_from_a_model_that_does() -> None:
    class Refuses(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            raise ValueError("no gradient for you")

    model = Call(lambda self, x: _apply(Refuses, self.linear(x)), linear=nn.Linear(4, 4))
    found = BACKEND.trace_training(model, ModelInputs(ones(N, 4)))
    assert str(found.failure) == (
        "the model runs, but its backward pass raised ValueError: no gradient for you; it was called with "
        f"{ModelInputs(ones(N, 4))!r}, can it be trained on these?"
    )
