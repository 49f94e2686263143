"""A small model of torch, a larger one, and every call of it that `harming` breaks off."""

from __future__ import annotations

import gc
import hashlib
import sys
import warnings
from typing import Any

import torch
import torch._dynamo
from harming_calls import Calls, look_at_process
from torch import nn
from torch.nn.modules import module as torch_module

from profilerkit import profile
from profilerkit_torch import ComputeEvalMetric, TorchProfiler, get_accuracy, layer_times, watch

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
        facts: dict[str, Any] = {}
        for path, module in self.model.named_modules():
            facts[f"model {path} type"] = type(module)
            facts[f"model {path} names"] = [*module.__dict__]
            facts[f"model {path} training"] = module.training
            for name, value in module.__dict__.items():
                facts[f"model {path} {name}"] = _content(value)
                if isinstance(value, torch.Tensor):
                    facts[f"model {path}.{name} tensor"] = _tensor(value)
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                facts[f"model {path}.{name} tensor"] = _tensor(tensor)
        return {**facts, **_process()}


def _content(value: Any) -> Any:
    if isinstance(value, dict):
        return id(value), [(key, id(part)) for key, part in value.items()]
    return (id(value), [*map(str, value)]) if isinstance(value, (list, set)) else id(value)


def _tensor(tensor: Any) -> Any:
    if tensor is None or tensor.is_meta:
        return tensor if tensor is None else "on the meta device"
    values = hashlib.sha1(tensor.detach().numpy().tobytes()).hexdigest()
    hooks = tensor._backward_hooks, getattr(tensor, "_post_accumulate_grad_hooks", None), dict(tensor.__dict__)
    gradient = tensor.grad if tensor.is_leaf else None
    return id(tensor), tensor.data_ptr(), values, tensor.requires_grad, id(gradient), tensor._version, hooks


def _process() -> dict[str, Any]:
    hooks = {
        name: dict(value)
        for name, value in vars(torch_module).items()
        if name.startswith("_global_") and isinstance(value, dict)
    }
    return {
        **look_at_process(),
        "process hooks": hooks,
        "process fast path": torch.backends.mha.get_fastpath_enabled(),
        "process gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "process autocast": torch.is_autocast_enabled("cpu"),
        "process dtype": torch.get_default_dtype(),
        "process threads": torch.get_num_threads(),
        "process onednn": torch._C._get_mkldnn_enabled(),
        "process scripts": torch._C._get_graph_executor_optimize(),
        "process stance": torch._dynamo.eval_frame._stance.stance,
        "process multithreading": torch.autograd.is_multithreading_enabled(),
        "process modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "process torch numbers": torch.get_rng_state().numpy().tobytes(),
        "process collector": gc.isenabled(),
        "process excepthook": sys.excepthook,
        "process names": (
            id(torch.overrides.has_torch_function),
            id(torch.FloatTensor),
            id(vars(torch)["to_dlpack"]),
        ),
        "process saved tensors": torch._C._autograd._top_saved_tensors_default_hooks(True),
    }


def made() -> Torch:
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    return Torch(Small().train(), torch.ones(2, 4))


def made_large() -> Torch:
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    return Torch(Large().eval(), torch.ones(1, 3, 16, 16))
