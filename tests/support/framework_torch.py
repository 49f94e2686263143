"""The models and tensors of torch for the tests of all backends."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from bad_calls import layer_formula
from frameworks import Framework
from tiny import BACKEND, Call
from torch import nn
from torch.export import Dim, export

import profilerkit_torch
from profilerkit_torch.costs import registry

__all__ = ["FRAMEWORK"]


class Torch(Framework):
    name = title = "torch"
    misfit = RuntimeError
    no_numbers = "the model raised "
    matmul, new_operator = "aten::mm", "mylib::attend"
    layer_class = nn.Module
    quick_metrics = ("total_params", "macs", "execution_time", "training_macs", "layer_times", "batch_sweep")
    quick_options = {"num_iters": 2, "warmup": 0, "passes": 2, "batch_sizes": (1, 2)}  # noqa: RUF012
    profile_arguments = {  # noqa: RUF012
        "autocast": None,
        "backward": True,
        "compile": False,
        "num_threads": None,
        "optimizer": None,
        "split": None,
    }
    package = profilerkit_torch
    costs = registry
    backend = BACKEND
    profiler = profilerkit_torch.TorchProfiler
    loader = profilerkit_torch.TorchDataLoader
    forward_pass = profilerkit_torch.TorchForwardPass

    def tensor(self, values: Any) -> Any:
        return torch.as_tensor(values)

    def array(self, tensor: Any) -> Any:
        return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).detach().numpy()

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype).removeprefix("torch.")

    def device(self, tensor: Any) -> str:
        return str(tensor.device.type)

    def roll(self, tensor: Any) -> Any:
        return tensor.roll(1, dims=1)

    def seed(self, number: int) -> None:
        torch.manual_seed(number)
        np.random.seed(number)
        random.seed(number)

    def draws(self) -> list[float]:
        return [float(torch.rand(())), *self.draws_of_python()]

    def function(self, function: Callable[..., Any]) -> Any:
        return Call(lambda self, *args, **kwargs: function(*args, **kwargs))

    def identity(self, size: int = 3) -> Any:
        return nn.Identity()

    def identities(self) -> Mapping[str, Callable[[], Any]]:
        return {"a module": self.identity, "a function": lambda: self.function(lambda x: x)}

    def sigmoids(self) -> Sequence[Any]:
        return [nn.Sigmoid(), nn.Sequential(nn.Identity(), nn.Sequential(nn.Sigmoid()))]

    def dense(self, *sizes: int) -> Any:
        return nn.Sequential(*[nn.Linear(*pair) for pair in pairwise(sizes)])

    def words(self) -> Any:
        return nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2))

    def convolutional(self) -> Any:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 2))

    def image(self, height: int, width: int, channels: int) -> tuple[int, ...]:
        return channels, height, width

    def declaring(self, *shape: int | None) -> tuple[Any, str]:
        names = ("batch", "steps")
        open_sizes = {index: Dim(names[index]) for index, size in enumerate(shape) if size is None}
        example = torch.randn([size or 3 + index for index, size in enumerate(shape)])
        return export(nn.Sequential(nn.Linear(4, 2)), (example,), dynamic_shapes=(open_sizes,)), "input"

    def formula_of_layer(self, layer: Any) -> Any:
        return registry.module_cost(layer)

    def own_calls(self) -> Mapping[str, Any]:
        def registered(module_type: Any, formula: Any, override: Any) -> Any:
            with registry.scoped_costs():
                return profilerkit_torch.register_module_cost(module_type, formula, override=override)

        def timed(model: Any, keep: Any) -> Any:
            with profilerkit_torch.layer_times(model, keep) as timer:
                model(torch.ones(2, 4))
            return timer.table

        def watched(model: Any, optimizer: Any, at_step: Any) -> Any:
            with profilerkit_torch.watch(model, optimizer, at_step) as found:
                for _ in range(2):
                    model(torch.ones(2, 4)).sum().backward()
                    found.step()
            return found

        def overridden(formulas: Any) -> None:
            with registry.override(formulas):
                pass

        class Own(nn.Module):
            """A layer of the user's own, which may have a formula without overriding one."""

        def model() -> Any:
            return self.dense(4, 3)

        formula = {"module_type": lambda: Own, "formula": lambda: layer_formula, "override": False}
        return {
            "register_module_cost": (registered, formula),
            "costs.override": (overridden, {"formulas": dict}),
            "layer_times": (timed, {"model": model, "keep": 3}),
            "watch": (watched, {"model": model, "optimizer": None, "at_step": 1}),
        }

    def losses(self) -> Sequence[tuple[str, Any]]:
        return [
            ("squared", self.squared),
            ("MSELoss", nn.MSELoss()),
            ("MSELoss", nn.MSELoss(reduction="none")),
            ("mse_loss", nn.functional.mse_loss),
        ]

    def mean(self, tensor: Any) -> Any:
        return tensor.mean()


FRAMEWORK = Torch()
