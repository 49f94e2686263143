"""What torch's host takes besides the operators themselves: calls of layers, views, gradients and compiled graphs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn import functional

from profilerkit.errors import BackendFailedError
from profilerkit_predict.prediction.cases import CompiledSeconds, HostSeconds

from ..running.compiling import use_compiled as compiled_model
from ..running.timed_passes import synchronize

__all__ = ["host_seconds", "split_gradient_seconds"]

T = TypeVar("T")
#: The lengths of two chains, whose difference tells what a link takes.
_SHORT, _LONG = 4, 20
#: The rows and columns of the matrices in chains: the work itself is nothing.
_SIZE = 16
#: How many calls are timed: a view, two passes, a product, two steps, two layers and their operators.
_MEASURED = 10
#: How often a call is timed, and how many times it runs each time; fewer if the time does not suffice.
_RUNS, _CALLS = 20, 100
#: How often what was disturbed is measured.
_TRIES = 5


#: Returns the seconds of a call.
_Shortest = Callable[[Callable[[], object]], float]


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


class _DisturbedError(Exception):
    """Raised where a difference of two times is not positive: of what takes more, less was measured."""


def host_seconds(device: torch.device, compiled: bool, seconds: float) -> HostSeconds:
    """Return what the host takes besides operators; what concerns compiled graphs with ``compiled`` alone.

    ``seconds`` is about how long it may take, without the time to compile. A measurement that was disturbed is made
    again; raises `BackendFailedError` if each one was.
    """
    shortest = partial(_shortest, device=device, seconds=seconds / _MEASURED)
    layer_call, view, product, gradients = _measure_again(
        lambda: _eager_seconds(device, shortest), "calls of layers and for gradients"
    )
    of_graphs = None
    if compiled:
        x = torch.ones(_SIZE, _SIZE, device=device)
        of_graphs = _measure_again(lambda: _measure_compiled(x, device, shortest), "calls of compiled graphs")
    return HostSeconds(layer_call, view, *gradients, of_graphs, operator_call=product)


def _measure_again(measure: Callable[[], T], what: str) -> T:
    """Return what is measured, the first time that nothing disturbs it."""
    for _ in range(_TRIES):
        try:
            return measure()
        except _DisturbedError:
            continue
    raise BackendFailedError(
        f"what the host takes for {what} was not measured: {_TRIES} times less time was measured with them than "
        "without; calibrate again while nothing else runs on this machine"
    )


def _eager_seconds(device: torch.device, shortest: _Shortest) -> tuple[float, float, float, tuple[float, float]]:
    """Return the seconds of a layer's call, of a view, of a product on a GPU, and of what differentiation takes."""
    x = torch.ones(_SIZE, _SIZE, device=device)
    short, long = (_Chain(links, False, device) for links in (_SHORT, _LONG))
    with torch.no_grad():
        view = shortest(x.t)
        passes = shortest(lambda: short(x)), shortest(lambda: long(x))
        product = shortest(partial(functional.linear, x, short.weights[0])) if device.type == "cuda" else 0.0
    steps = [shortest(partial(_step, chain, x, tuple(chain.parameters()))) for chain in (short, long)]
    return _layer_call(x, shortest), view, product, split_gradient_seconds(view, passes, (steps[0], steps[1]))


def split_gradient_seconds(view: float, passes: tuple[float, float], steps: tuple[float, float]) -> tuple[float, float]:
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
    return _positive((link - 3 * product - view) / 2), _positive(step_without - without)


def _layer_call(x: torch.Tensor, shortest: _Shortest) -> float:
    """Return what the call of a layer takes besides its operator: the mean of a product and an activation."""
    weight, bias = torch.zeros(_SIZE, _SIZE, device=x.device), torch.zeros(_SIZE, device=x.device)
    linear = nn.Linear(_SIZE, _SIZE, device="meta")
    linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(bias)
    activation = nn.ReLU()
    with torch.no_grad():
        layers = shortest(lambda: linear(x)) + shortest(lambda: activation(x))
        operators = shortest(lambda: functional.linear(x, weight, bias)) + shortest(x.relu)
    return _positive((layers - operators) / 2)


def _positive(difference: float) -> float:
    if difference <= 0:
        raise _DisturbedError
    return difference


def _measure_compiled(x: torch.Tensor, device: torch.device, shortest: _Shortest) -> CompiledSeconds:
    """Return what the host takes for compiled graphs.

    A graph of n products, each with a weight, takes ``graph_call + n * (product + graph_weight)``; with a kernel after
    each it takes ``n * kernel_call`` more. A training step of it has three times the products. A product of a graph may
    take less than one outside, and a kernel no more than the product before it: then the share of a weight or of a
    kernel is nothing. The call of a graph and a link always take some time: where none is left, something disturbed
    the measurement.
    """
    chains = _Chain(_SHORT, False, device), _Chain(_LONG, False, device)
    with torch.no_grad():
        product = shortest(partial(functional.linear, x, chains[0].weights[0]))
        passes = [_time_compiled(chain, x, shortest, is_step=False) for chain in chains]
        with_kernels = _time_compiled(_Chain(_LONG, True, device), x, shortest, is_step=False)
    steps = [_time_compiled(chain, x, shortest, is_step=True) for chain in chains]
    (link, graph), (step_link, step) = _line(*passes), _line(*steps)
    weights = max(0.0, _positive(link) - product), max(0.0, _positive(step_link) - 3 * product)
    of_kernel = max(0.0, (with_kernels - passes[1]) / _LONG)
    return CompiledSeconds(_positive(graph), weights[0], _positive(step), weights[1], of_kernel)


def _time_compiled(model: _Chain, x: torch.Tensor, shortest: _Shortest, is_step: bool) -> float:
    """Return the seconds of a pass or a training step of a compiled model."""
    with compiled_model(model, True) as call:
        timed = partial(_step, call, x, tuple(model.parameters())) if is_step else partial(call, x)
        timed()
        return shortest(timed)


def _step(model: Callable[..., Any], x: torch.Tensor, weights: Iterable[torch.Tensor]) -> None:
    with torch.enable_grad():
        model(x).sum().backward()
    for weight in weights:
        weight.grad = None


def _line(short: float, long: float) -> tuple[float, float]:
    """Return what a link takes, and what a chain takes without any."""
    link = (long - short) / (_LONG - _SHORT)
    return link, short - _SHORT * link


def _shortest(call: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Return the seconds of a call: the shortest mean of several runs, of at least two."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    shortest, started = math.inf, time.perf_counter()
    call()
    once = max(time.perf_counter() - started, 1e-9)
    calls = max(5, min(_CALLS, int(seconds / _RUNS / once)))
    for run in range(_RUNS):
        if run > 1 and time.perf_counter() - started >= seconds:
            break
        began = clock()
        for _ in range(calls):
            call()
        synchronize(device)
        shortest = min(shortest, (clock() - began) / calls)
    return shortest
