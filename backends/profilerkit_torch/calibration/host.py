"""The host's seconds besides the operators: calls of layers, views, gradients and compiled graphs of torch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn
from torch.nn import functional

from profilerkit.errors import BackendFailedError
from profilerkit_predict.prediction.cases import CompiledSeconds, HostSeconds

from ..running.compiling import use_compiled
from ..running.timed_passes import synchronize

__all__ = ["ChainSeconds", "GradientSeconds", "measure_host", "split_gradient_seconds"]

T = TypeVar("T")
#: The lengths of two chains, whose difference gives the seconds of a link.
_SHORT, _LONG = 4, 20
#: The rows and columns of the matrices in chains: so small that the work takes no time.
_SIZE = 16
#: How many calls are timed: a view, two passes, a product, two steps, two layers and their operators.
_MEASURED = 10
#: How often a call is timed, and how many times it runs each time; fewer if the time does not suffice.
_RUNS, _CALLS = 20, 100
#: How often a disturbed measurement is tried.
_TRIES = 5

#: Returns the seconds of a call: `_measure_shortest` with a device and a limit of seconds.
_Shortest = Callable[[Callable[[], object]], float]


class ChainSeconds(NamedTuple):
    """The seconds of a chain with few links, and of a chain with many."""

    short: float
    long: float

    @property
    def link(self) -> float:
        """The seconds of a link."""
        return (self.long - self.short) / (_LONG - _SHORT)

    @property
    def rest(self) -> float:
        """The seconds of a chain without any link."""
        return self.short - _SHORT * self.link


class GradientSeconds(NamedTuple):
    """The seconds of differentiation, without the work of the operators."""

    operator: float  #: for each operator of the backward pass
    start: float  #: for the backward pass to start


class _Chain(nn.Module):
    """Products, one after the other, each followed by a ReLU or not."""

    def __init__(self, links: int, device: torch.device, *, has_relus: bool = False) -> None:
        super().__init__()
        # Weights that torch initializes would draw from its generator.
        self.weights = nn.ParameterList(torch.full((_SIZE, _SIZE), 1 / _SIZE, device=device) for _ in range(links))
        self.has_relus = has_relus

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = functional.linear(x, weight)
            if self.has_relus:
                x = torch.relu(x)
        return x


class _DisturbedError(Exception):
    """Raised if a difference of two times is not positive: the longer work took less time than the shorter."""


def measure_host(device: torch.device, compiled: bool, seconds: float) -> HostSeconds:
    """Return the host's seconds besides operators; with ``compiled`` also its seconds for compiled graphs.

    ``seconds`` is about how long this may take, without the time to compile. A disturbed measurement is repeated;
    raises `BackendFailedError` if every measurement was disturbed.
    """
    x = torch.ones(_SIZE, _SIZE, device=device)
    shortest = partial(_measure_shortest, device=device, seconds=seconds / _MEASURED)
    host = _measure_again(partial(_measure_eager, x, shortest), "calls of layers and for gradients")
    if not compiled:
        return host
    return replace(host, compiled=_measure_again(partial(_measure_compiled, x, shortest), "calls of compiled graphs"))


def _measure_again(measure: Callable[[], T], what: str) -> T:
    """Return the first measurement that nothing disturbs."""
    for _ in range(_TRIES):
        try:
            return measure()
        except _DisturbedError:
            continue
    raise BackendFailedError(
        f"what the host takes for {what} was not measured: {_TRIES} times less time was measured with them than "
        "without; calibrate again while nothing else runs on this machine"
    )


def _require_positive(difference: float) -> float:
    if difference <= 0:
        raise _DisturbedError
    return difference


# Without compiling ----------------------------------------------------------------------------------------------------


def _measure_eager(x: torch.Tensor, shortest: _Shortest) -> HostSeconds:
    """Return the host's seconds for the call of a layer and a view, for a product on a GPU, and for gradients."""
    short, long = _Chain(_SHORT, x.device), _Chain(_LONG, x.device)
    with torch.no_grad():
        view = shortest(x.t)
        passes = ChainSeconds(shortest(partial(short, x)), shortest(partial(long, x)))
        product = shortest(partial(functional.linear, x, short.weights[0])) if x.device.type == "cuda" else 0.0
    steps = ChainSeconds(shortest(_make_step(short, short, x)), shortest(_make_step(long, long, x)))
    layer = _measure_layer_call(x, shortest)
    gradient = split_gradient_seconds(view, passes, steps)
    return HostSeconds(
        layer, view, gradient_call=gradient.operator, backward_call=gradient.start, operator_call=product
    )


def split_gradient_seconds(view: float, passes: ChainSeconds, steps: ChainSeconds) -> GradientSeconds:
    """Return the times of differentiation; raises `_DisturbedError` if the measured times leave none.

    A link of a chain of products takes, forward and backward, three products (one forward, two for the gradients), the
    view of a transposition, and the differentiation of two operators. The start is the time of a step without links
    minus the time of a pass without links.
    """
    operator = (steps.link - 3 * passes.link - view) / 2
    return GradientSeconds(_require_positive(operator), _require_positive(steps.rest - passes.rest))


def _measure_layer_call(x: torch.Tensor, shortest: _Shortest) -> float:
    """Return the seconds of a layer's call besides its operator: the mean of a product and an activation."""
    weight, bias = torch.zeros(_SIZE, _SIZE, device=x.device), torch.zeros(_SIZE, device=x.device)
    linear = nn.Linear(_SIZE, _SIZE, device="meta")
    linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(bias)
    activation = nn.ReLU()
    with torch.no_grad():
        layers = shortest(partial(linear, x)) + shortest(partial(activation, x))
        operators = shortest(partial(functional.linear, x, weight, bias)) + shortest(x.relu)
    return _require_positive((layers - operators) / 2)


def _make_step(chain: _Chain, call: Callable[..., Any], x: torch.Tensor) -> Callable[[], None]:
    """Return a function that makes a training step of a chain by ``call``, without the update."""
    weights = tuple(chain.parameters())

    def step() -> None:
        with torch.enable_grad():
            call(x).sum().backward()
        for weight in weights:
            weight.grad = None

    return step


# Compiled graphs ------------------------------------------------------------------------------------------------------


def _measure_compiled(x: torch.Tensor, shortest: _Shortest) -> CompiledSeconds:
    """Return the host's seconds for compiled graphs.

    A graph of n products, each with a weight, takes ``graph_call + n * (product + graph_weight)``; with a kernel after
    each it takes ``n * kernel_call`` more. A training step of it has three times the products. A product of a graph may
    take less than a product outside, and a kernel no more than the product before it: then the share of a weight or of
    a kernel is zero. The call of a graph and a link always take some time: if none is left, the measurement was
    disturbed.
    """
    short, long = _Chain(_SHORT, x.device), _Chain(_LONG, x.device)
    with torch.no_grad():
        product = shortest(partial(functional.linear, x, short.weights[0]))
        passes = ChainSeconds(*(_time_compiled(chain, x, shortest, is_step=False) for chain in (short, long)))
        with_kernels = _time_compiled(_Chain(_LONG, x.device, has_relus=True), x, shortest, is_step=False)
    steps = ChainSeconds(*(_time_compiled(chain, x, shortest, is_step=True) for chain in (short, long)))
    return CompiledSeconds(
        graph_call=_require_positive(passes.rest),
        graph_weight=max(0.0, _require_positive(passes.link) - product),
        step_call=_require_positive(steps.rest),
        step_weight=max(0.0, _require_positive(steps.link) - 3 * product),
        kernel_call=max(0.0, (with_kernels - passes.long) / _LONG),
    )


def _time_compiled(model: _Chain, x: torch.Tensor, shortest: _Shortest, is_step: bool) -> float:
    """Return the seconds of a pass or a training step of a compiled model."""
    with use_compiled(model, True) as call:
        timed = _make_step(model, call, x) if is_step else partial(call, x)
        timed()
        return shortest(timed)


# The time of a call ---------------------------------------------------------------------------------------------------


def _measure_shortest(call: Callable[[], object], device: torch.device, seconds: float) -> float:
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
