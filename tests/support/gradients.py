"""What the tests of the gradients' costs share: the operators that autograd runs, and calls of single ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from profilerkit_torch.costs import Cost, Kind, classify, op_cost


class Backward(TorchDispatchMode):
    """Adds up what the operators cost that run inside; one that has no cost fails."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cost = Cost(0, 0)
        self.operators: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        kind = classify(func)
        if kind is not Kind.VIEW:
            cost = op_cost(func, kind, args, kwargs or {}, result)
            assert cost is not None, f"{func} is not counted"
            self.cost = Cost(self.cost.macs + cost.macs, self.cost.flops + cost.flops)
            self.operators.append(func._schema.name)
        return result


def backward(
    function: Callable[..., Any], *tensors: torch.Tensor, frozen: tuple[int, ...] = (), device: str = "meta"
) -> Backward:
    """Return what runs for the gradients of a function's sum by all its tensors but the frozen ones."""
    inputs = [tensor.detach().to(device) for tensor in tensors]
    wanted = [tensor for place, tensor in enumerate(inputs) if tensor.is_floating_point() and place not in frozen]
    for tensor in wanted:
        tensor.requires_grad_(True)
    total = function(*inputs).sum()
    watched = Backward()
    with watched:
        torch.autograd.grad(total, wanted, allow_unused=True)
    return watched


def gradient(
    function: Callable[..., Any], *tensors: torch.Tensor, frozen: tuple[int, ...] = (), device: str = "meta"
) -> tuple[int, int]:
    """Return MACs and FLOPs of the gradients of a function's sum by all its tensors but the frozen ones."""
    macs, flops = backward(function, *tensors, frozen=frozen, device=device).cost
    return macs, flops


def call_operator(name: str, out: Any, **given: Any) -> tuple[int, int]:
    """Return MACs and FLOPs of one call of an operator with these arguments by name; others that it needs are None."""
    packet, _, overload = name.partition(".")
    func = getattr(getattr(torch.ops.aten, packet), overload or "default")
    arguments = func._schema.arguments
    assert {argument.name for argument in arguments} >= set(given), func._schema
    args = tuple(given.get(argument.name) for argument in arguments if not argument.kwarg_only)
    kind = classify(func)
    cost = op_cost(func, kind, args, {}, out)
    assert cost is not None, f"{func} is not counted"
    return cost.macs, cost.flops


def empty(*shape: int) -> torch.Tensor:
    """Return a tensor of that shape without data."""
    return torch.empty(shape, device="meta")
