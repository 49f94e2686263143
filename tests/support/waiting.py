"""Layers that let a clock of the tests' own go on by known seconds, and what times them by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from profilerkit.times.layer_times import LayerTimeTable
from profilerkit_torch.layer_timing.clocks import HostClock
from profilerkit_torch.layer_timing.timed_calls import Overhead
from profilerkit_torch.layer_timing.timer import TorchLayerTimer

X = torch.ones(2)


class Clock:
    """Goes on when it is told to."""

    now = 0.0

    def read(self) -> float:
        return self.now


CLOCK = Clock()


class Wait(torch.autograd.Function):
    """Takes seconds forward and backward, and changes nothing."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward: float, backward: float) -> torch.Tensor:
        CLOCK.now += forward
        ctx.backward_seconds = backward
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        CLOCK.now += ctx.backward_seconds
        return gradients[0], None, None


def wait(x: torch.Tensor, forward: float, backward: float) -> torch.Tensor:
    return Wait.apply(x, forward, backward)  # type: ignore[no-any-return,no-untyped-call]


class Failing(torch.autograd.Function):
    """Its gradient raises."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise ArithmeticError("on the way back")


def fail_backward(x: torch.Tensor) -> torch.Tensor:
    return Failing.apply(x)  # type: ignore[no-any-return,no-untyped-call]


class Busy(nn.Module):
    """A layer with a weight, that takes seconds forward and backward."""

    def __init__(self, forward: float, backward: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.seconds = forward, backward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return wait(x * self.weight, *self.seconds)


def make_timer(model: nn.Module, overhead: Overhead | None = None) -> TorchLayerTimer:
    return TorchLayerTimer(model, clock=HostClock(CLOCK.read), overhead=overhead)


def time_steps(model: nn.Module, *args: Any, runs: int = 1, use: Callable[[Any], torch.Tensor] | None = None) -> Any:
    """Time training steps of the model; ``use`` makes a loss of its outputs."""
    with make_timer(model) as timer:
        for _ in range(runs):
            (use or (lambda output: output.sum()))(model(*(args or (X,)))).backward()
    return timer.table


def seconds(table: LayerTimeTable, column: str) -> dict[str, float]:
    return {row["path"]: row[column] for row in table}
