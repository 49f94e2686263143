"""Which module a training step calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import MethodType
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch import nn

from profilerkit_torch.callbacks.called_modules import CalledModules


class Holder(nn.Module):
    """A network, a smaller one, and a loss, as a trainer may hold them."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.net = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
        self.loss = nn.MSELoss()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.net(x)
        return output


def count_hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


@contextmanager
def noted(root: nn.Module) -> Iterator[CalledModules]:
    """Note the modules that are called in the block."""
    called = CalledModules(root)
    called.start()
    try:
        yield called
    finally:
        called.stop()


X = torch.zeros(1, 4)


def test_the_largest_module_that_is_called_is_found() -> None:
    holder = Holder()
    with noted(holder) as called:
        holder.loss(holder.net(holder.small(X)), torch.zeros(1, 2))
    assert called.find_largest() is holder.net
    assert count_hooks(holder) == 0


def test_what_another_module_calls_is_not_called_from_outside() -> None:
    holder = Holder()
    with noted(holder) as called:
        holder(X)
        holder.small(X)
    assert called.find_largest() is holder


def test_without_a_call_it_is_the_whole() -> None:
    with noted(holder := Holder()) as called:
        pass
    assert called.find_largest() is holder


def test_a_lazy_layer_that_was_not_called_has_no_parameters() -> None:
    holder = Holder()
    holder.net[0].later = nn.LazyLinear(3)
    with noted(holder) as called:
        holder.net(holder.small(X))
    assert called.find_largest() is holder.net


def test_a_call_that_raises_is_over() -> None:
    holder = Holder()
    with noted(holder) as called:
        with pytest.raises(RuntimeError):
            holder.small(torch.zeros(1, 3))
        holder.net(X)
    assert called.find_largest() is holder.net


def test_a_call_that_leads_to_the_training_step_is_none_of_the_module() -> None:
    """As Lightning's DDP does, which calls the module with its forward replaced for this call."""
    holder = Holder()

    def run_training_step(x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = holder.net(x)
        return output

    with noted(holder) as called:
        holder.forward = run_training_step  # type: ignore[method-assign]
        holder(X)
    assert called.find_largest() is holder.net


@pytest.mark.parametrize("is_root", [False, True])
@pytest.mark.parametrize("kind", [partial, MethodType, lambda run, module: lambda x: run(module, x)])
def test_a_module_that_a_library_has_patched_is_called_itself(kind: Any, is_root: bool) -> None:
    """As Accelerate does: its hooks stand in a ``partial``, which it sets as the ``forward`` of a module."""
    holder = Holder()
    module = holder if is_root else holder.net
    own_forward = module.forward

    def run_with_hooks(patched: nn.Module, x: torch.Tensor) -> torch.Tensor:
        assert patched is module
        output: torch.Tensor = own_forward(x)
        return output

    module.forward = kind(run_with_hooks, module)  # type: ignore[method-assign]
    with noted(holder) as called:
        module(X)
    assert called.find_largest() is module
