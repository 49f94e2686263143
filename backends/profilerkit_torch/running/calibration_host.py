"""What torch's host takes besides the operators themselves: calls of layers, views, gradients and compiled graphs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from profilerkit.prediction.cases import HostSeconds

from .compiling import compiled as compiled_model

__all__ = ["gradients_of", "host_seconds"]

#: The lengths of two chains, whose difference tells what a link takes.
_SHORT, _LONG = 4, 20
#: The rows and columns of the matrices in chains: the work itself is nothing.
_SIZE = 16


class _Chain(nn.Module):
    """Products, one after the other, each followed by a ReLU or not."""

    def __init__(self, links: int, relu: bool, device: torch.device) -> None:
        super().__init__()
        # Weights that torch initializes would draw from its generator.
        self.weights = nn.ParameterList(torch.full((_SIZE, _SIZE), 1 / _SIZE, device=device) for _ in range(links))
        self.relu = relu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = functional.linear(x, weight)
            if self.relu:
                x = torch.relu(x)
        return x


def host_seconds(device: torch.device, compiled: bool) -> HostSeconds:
    """Return what the host takes besides operators; what concerns compiled graphs with ``compiled`` alone."""
    x = torch.ones(_SIZE, _SIZE, device=device)
    short, long = (_Chain(links, False, device) for links in (_SHORT, _LONG))
    with torch.no_grad():
        view = _shortest(x.t, device)
        passes = _shortest(lambda: short(x), device), _shortest(lambda: long(x), device)
    steps = _shortest(lambda: _step(short, x), device), _shortest(lambda: _step(long, x), device)
    graph, kernel = _compiled_calls(x, device) if compiled else (None, None)
    return HostSeconds(_layer_call(x, device), view, *gradients_of(view, passes, steps), graph, kernel)


def gradients_of(view: float, passes: tuple[float, float], steps: tuple[float, float]) -> tuple[float, float]:
    """Return what differentiation takes for an operator of the backward pass, and what that takes to start.

    A link of a chain of products, forward and backward, takes what three products take (one forward, two for the
    gradients), the view of a transposition, and twice what differentiation takes for an operator. What a step without
    links would take, more than a pass without, is the start.

    Args:
        view: Seconds of a view.
        passes: Seconds of a forward pass of the short chain, and of the long one.
        steps: Seconds of a training step of both.
    """
    (product, without), (link, step_without) = _line(*passes), _line(*steps)
    return max(0.0, (link - 3 * product - view) / 2), max(0.0, step_without - without)


def _layer_call(x: torch.Tensor, device: torch.device) -> float:
    """Return what the call of a layer takes besides its operator: the mean of a product and an activation."""
    weight, bias = torch.zeros(_SIZE, _SIZE, device=device), torch.zeros(_SIZE, device=device)
    linear = nn.Linear(_SIZE, _SIZE, device="meta")
    linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(bias)
    activation = nn.ReLU()
    with torch.no_grad():
        layers = _shortest(lambda: linear(x), device) + _shortest(lambda: activation(x), device)
        operators = _shortest(lambda: functional.linear(x, weight, bias), device) + _shortest(x.relu, device)
    return max(0.0, (layers - operators) / 2)


def _compiled_calls(x: torch.Tensor, device: torch.device) -> tuple[float, float]:
    """Return the seconds of the call of a compiled graph, and of a generated kernel in it.

    A graph of n products takes ``graph + n * product``; with a kernel after each it takes ``n * kernel`` more.
    """
    short, long, with_kernels = (
        _compiled(_Chain(links, relu, device), x, device)
        for links, relu in ((_SHORT, False), (_LONG, False), (_LONG, True))
    )
    return _line(short, long)[1], max(0.0, (with_kernels - long) / _LONG)


def _compiled(model: nn.Module, x: torch.Tensor, device: torch.device) -> float:
    """Return the seconds of a compiled model."""
    with torch.no_grad(), compiled_model(model, True) as call:
        call(x)
        return _shortest(lambda: call(x), device)


def _step(model: nn.Module, x: torch.Tensor) -> None:
    with torch.enable_grad():
        model(x).sum().backward()
    for weight in model.parameters():
        weight.grad = None


def _line(short: float, long: float) -> tuple[float, float]:
    """Return what a link takes, and what a chain takes without any."""
    link = max(0.0, (long - short) / (_LONG - _SHORT))
    return link, max(0.0, short - _SHORT * link)


def _shortest(call: Callable[[], object], device: torch.device, calls: int = 100) -> float:
    """Return the seconds of a call: the shortest mean of several runs."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    shortest = math.inf
    for _ in range(20):
        began = clock()
        for _ in range(calls):
            call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        shortest = min(shortest, (clock() - began) / calls)
    return shortest
