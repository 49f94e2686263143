"""Models that keep something between calls, or change themselves while they run."""

from __future__ import annotations

import contextvars
import functools
import random
import threading
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import torch
from torch import nn

from .subjects import Doing, Subject, behaviour, subject, x

__all__: list[str] = []

#: Caches as careless code has them.
GLOBAL_CACHE: dict[Any, Any] = {}
LOCAL = threading.local()
CONTEXT: contextvars.ContextVar[Any] = contextvars.ContextVar("attack", default=None)


class Slots:
    __slots__ = ("count", "later", "tensors")

    def __init__(self) -> None:
        self.count, self.tensors = 0, [torch.zeros(4)]


class Nested:
    """Objects in objects, deeper than one would look."""

    def __init__(self, depth: int) -> None:
        self.inside: Any = Nested(depth - 1) if depth else {"kept": [torch.zeros(4)]}


@behaviour(keys=lambda: None, values=list)
def kv_cache_attribute(self: Any, x: Any, y: Any) -> Any:
    self.keys = y if self.keys is None else torch.cat([self.keys, y])
    self.values.append(y)
    return y + self.keys.mean(0)


@behaviour(cache=dict, ordered=lambda: OrderedDict(a=1, b=2), recent=lambda: deque([torch.ones(4)], maxlen=2))
def caches_in_containers(self: Any, x: Any, y: Any) -> None:
    self.cache[tuple(y.shape)] = y
    self.ordered.move_to_end("a")
    self.recent.append(y)


@behaviour()
def cache_of_the_module_file(self: Any, x: Any, y: Any) -> Any:
    if "table" not in GLOBAL_CACHE:
        GLOBAL_CACHE["table"] = torch.arange(4.0, device=y.device)
    return y + GLOBAL_CACHE["table"]


@functools.lru_cache
def rotary(width: int, device: str) -> torch.Tensor:
    return torch.arange(float(width), device=device)


@behaviour()
def cached_function(self: Any, x: Any, y: Any) -> Any:
    return y + rotary(4, str(y.device.type))


@subject
def closure_cache() -> Subject:
    kept: dict[str, Any] = {}

    def do(self: Any, x: Any, y: Any) -> Any:
        if "table" not in kept:
            kept["table"] = torch.ones(4, device=y.device)
        return y * kept["table"]

    return Subject(Doing(do), (x(),), watched=(kept,))


def remember(y: Any, memory: list[Any] = []) -> Any:  # noqa: B006
    memory.append(y.detach())
    return memory[0]


@subject
def mutable_default_argument() -> Subject:
    return Subject(
        Doing(lambda self, x, y: remember(y)),
        (x(),),
        watched=(remember.__defaults__,),
        close=remember.__defaults__[0].clear,  # type: ignore[index]
    )


class ClassCache(Doing):
    cache: dict[Any, Any] = {}  # noqa: RUF012
    calls = 0
    latest: Any = None
    deep: dict[str, Any] = {"inside": {"kept": []}}  # noqa: RUF012


@subject
def class_attribute_cache() -> nn.Module:
    def do(self: Any, x: Any, y: Any) -> None:
        type(self).cache.setdefault("table", torch.ones(4, device=y.device))
        type(self).deep["inside"]["kept"].append(y)

    return ClassCache(do)


@behaviour(state=Slots)
def slots(self: Any, x: Any, y: Any) -> None:
    self.state.count += 1
    self.state.tensors.append(y)
    self.state.later = y
    self.state.tensors[0].add_(1)


@behaviour(state=lambda: Nested(8))
def nested_far_down(self: Any, x: Any, y: Any) -> None:
    inside = self.state
    while isinstance(inside, Nested):
        inside = inside.inside
    inside["kept"].append(y)


@behaviour()
def thread_local_and_context(self: Any, x: Any, y: Any) -> Any:
    if not hasattr(LOCAL, "table"):
        LOCAL.table = torch.ones(4, device=y.device)
    if CONTEXT.get() is None:
        CONTEXT.set(torch.ones(4, device=y.device))
    return y * LOCAL.table * CONTEXT.get()


class Properties(Doing):
    @functools.cached_property
    def table(self) -> torch.Tensor:
        return torch.ones(4, device=self.linear.weight.device)


@subject
def cached_property() -> nn.Module:
    return Properties(lambda self, x, y: y * self.table)


@behaviour(steps=lambda: 0, scale=lambda: torch.ones(4), history=list)
def step_counter(self: Any, x: Any, y: Any) -> Any:
    self.steps += 1
    self.history.append(self.steps)
    self.scale.add_(1)
    return y * self.scale


class Counting(nn.Module):
    steps: torch.Tensor
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4, momentum=None)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(4), persistent=False)

    def forward(self, x: torch.Tensor) -> Any:
        self.steps += 1
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return self.norm(x) + self.mean


@subject
def running_statistics() -> nn.Module:
    return Counting().train()


@behaviour(
    generator=lambda: torch.Generator().manual_seed(1),
    python=lambda: random.Random(1),
    numpy=lambda: np.random.default_rng(1),
)
def random_generators(self: Any, x: Any, y: Any) -> Any:
    torch.rand(1), random.random(), np.random.rand()
    number = self.python.random() + float(self.numpy.random())
    return y + torch.rand(4, generator=self.generator) + number + torch.rand(4, device=y.device)


class Averaging(nn.Module):
    """Keeps a moving average of its own weights."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = nn.Linear(4, 4), nn.Linear(4, 4)

    @torch.no_grad()
    def update(self) -> None:
        for target, online in zip(self.target.parameters(), self.online.parameters(), strict=True):
            target.lerp_(online, 0.1)

    def forward(self, x: torch.Tensor) -> Any:
        self.update()
        return self.online(x) - self.target(x)


@subject
def moving_average() -> nn.Module:
    return Averaging()


@behaviour()
def changes_its_input(self: Any, x: Any, y: Any) -> Any:
    x.add_(1).mul_(2)
    return y + x


@behaviour()
def swaps_data(self: Any, x: Any, y: Any) -> None:
    self.linear.weight.data = self.linear.weight.data * 2
    self.linear.bias.data.mul_(1.5)


@behaviour()
def accumulates_gradients(self: Any, x: Any, y: Any) -> None:
    with torch.enable_grad():
        (self.linear.weight * 3).sum().backward()


@behaviour(options=lambda: {"a": [1]}, names=lambda: ["a"])
def changes_its_containers(self: Any, x: Any, y: Any) -> None:
    self.options["a"].append(2)
    self.options = {"b": 1, **self.options}
    self.names[:] = ["a", "b"]
    self.__dict__["training"] = not self.training


@behaviour()
def replaces_its_layer(self: Any, x: Any, y: Any) -> None:
    replaced = nn.Linear(4, 4)
    replaced.load_state_dict(self.linear.state_dict())
    self.linear = replaced
    self.added = nn.Dropout()
    self.register_buffer("late", torch.zeros(2))
    self.register_parameter("later", nn.Parameter(torch.zeros(2)))


@behaviour(config=dict, table=lambda: torch.ones(4))
def deletes_attributes(self: Any, x: Any, y: Any) -> None:
    for name in ("config", "table"):
        self.__dict__.pop(name, None)
    self._buffers.clear()
    self._non_persistent_buffers_set.add("gone")


@behaviour()
def changes_class_and_flags(self: Any, x: Any, y: Any) -> None:
    self.eval() if self.training else self.train()
    self.linear.requires_grad_(not self.linear.weight.requires_grad)
    self.__class__ = ClassCache


@behaviour()
def hooks_itself(self: Any, x: Any, y: Any) -> None:
    self.linear.register_forward_hook(lambda module, args, output: None)
    self.linear.weight.register_hook(lambda gradient: gradient) if self.linear.weight.requires_grad else None
    self.linear.weight.marked = True


@behaviour()
def asks_for_values(self: Any, x: Any, y: Any) -> Any:
    return y * 2 if float(y.sum()) > 0 else y * 3
