"""A small model of torch, a larger one, and every call of it that `harming` breaks off."""

from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which the first trace would import
from harming_calls import Calls, look_at_process
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "attack"))

from untouched_torch.facts import walk
from untouched_torch.process import process_facts

from profilerkit import profile
from profilerkit_torch import ComputeEvalMetric, TorchProfiler, get_accuracy, layer_times, watch
from profilerkit_torch.compat.profiler import is_profiler_enabled

__all__ = ["made", "made_large"]

STATIC = ("macs", "total_params", "memory_footprint")


class Small(nn.Module):
    """Weights, a buffer that each pass writes to, a plain tensor, a dropout and a list that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(8, 3)
        self.register_buffer("count", torch.zeros(2))
        self.plain = torch.ones(3)
        self.seen: list[Any] = []
        self.options = {"b": 1, "a": 2}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x.shape)
        self.last = x
        self.get_buffer("count").add_(1)
        output: torch.Tensor = self.head(self.inner(x)) * self.plain
        return output


def block(width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())


class Large(nn.Module):
    """Some 150 modules, and attention in the layers of an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(nn.Conv2d(3, 8, 3), *(block(8) for _ in range(30)))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.blocks(x).mean((2, 3)).repeat(1, 2).unsqueeze(1)
        output: torch.Tensor = self.head(self.encoder(features)).squeeze(1)
        return output


class Torch(Calls):
    """A model with everything that can be done with it."""

    names = (
        *("static", "training", "timed", "compared", "evaluated", "accuracy", "layers", "operators"),
        *("layer_block", "watched"),
    )

    def __init__(self, model: nn.Module, x: torch.Tensor) -> None:
        self.model: Any = model
        self.x = x
        for number, parameter in enumerate(model.parameters()):
            if number % 2:
                parameter.grad = torch.ones_like(parameter)

    def static(self) -> Any:
        report = profile(self.model, self.x, strict=True, metrics=STATIC)
        return [report[name] for name in STATIC]

    def training(self) -> Any:
        names = ("training_macs", "training_memory")
        report = profile(self.model, self.x, strict=True, metrics=names)
        return [str(report[name]) for name in names]

    def evaluated(self) -> Any:
        profiler = TorchProfiler(self.model, {"test": [self.x]})
        profiler.register_profiler_function(ComputeEvalMetric(lambda model, loader: float(model(self.x).sum())))
        return profiler.compute_status("eval_metric")

    def accuracy(self) -> Any:
        return get_accuracy(self.model, [(self.x, torch.zeros(len(self.x), dtype=torch.long))])

    def operators(self) -> Any:
        return (
            profile(self.model, self.x, strict=True, metrics=["operator_table"], passes=1)["operator_table"] is not None
        )

    def layer_block(self) -> Any:
        with layer_times(self.model) as timer:
            self.model.head(torch.ones(1, self.model.head.in_features))
        return len(timer.table)

    def watched(self) -> Any:
        with watch(self.model, at_step=(0, 1)) as watched:
            for _ in range(2):
                self.model.head(torch.ones(1, self.model.head.in_features))
                watched.step()
        return len(watched.steps.steps)

    def look(self) -> dict[str, Any]:
        """Return the facts that must come back."""
        facts, _ = process_facts()
        walk("model", self.model, facts, set())
        return {**facts, **_process(), **look_at_process()}


def _process() -> dict[str, Any]:
    """Return what a profile switches or replaces for a moment, beside what the attacks look at."""
    return {
        "process profiler": is_profiler_enabled(),
        "process scripts": torch._C._get_graph_executor_optimize(),
        "process collector": gc.isenabled(),
        "process excepthook": sys.excepthook,
        "process names": (
            id(torch.overrides.has_torch_function),
            id(torch.FloatTensor),
            id(vars(torch)["to_dlpack"]),
        ),
    }


def made() -> Torch:
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    return Torch(Small().train(), torch.ones(2, 4))


def made_large() -> Torch:
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    return Torch(Large().eval(), torch.ones(1, 3, 16, 16))
