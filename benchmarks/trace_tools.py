"""One tool that counts a model's work, beside a forward pass of the same model: run by ``speed/static_profiles.py``.

``python trace_tools.py TOOL SAMPLES MODEL...`` prints one line of JSON for each model: wall seconds of the samples,
taken in turn, with as many threads as torch takes, and of the first call, which of the first model is with the import
of the tool. Every sample of the tool has a model of its own, for some leave hooks behind. After an error nothing more
is measured: what the tool has left behind would be measured with the next model.
"""

from __future__ import annotations

import copy
import importlib
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.util import find_spec
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

STATIC = ("total_params", "trainable_params", "model_size", "macs", "flops", "memory_footprint", "layerwise_data")
Tool = Callable[[nn.Module, torch.Tensor], object]


def _profile(model: nn.Module, x: torch.Tensor) -> object:
    from profilerkit import profile

    return profile(model, x, metrics=STATIC)


def _empty_mode(model: nn.Module, x: torch.Tensor) -> object:
    """Run a model under a mode that calls each operator and counts nothing: no tool that sees operators costs less."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Empty(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
            return func(*args, **(kwargs or {}))

    with Empty(), torch.no_grad():  # type: ignore[no-untyped-call]
        return model(x)


def _flop_counter_mode(model: nn.Module, x: torch.Tensor) -> object:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    return counter.get_total_flops()


def _over_fake_tensors(model: nn.Module, x: torch.Tensor) -> object:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.func import functional_call
    from torch.utils.flop_counter import FlopCounterMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        fake: dict[str, torch.Tensor] = {name: mode.from_tensor(tensor) for name, tensor in tensors.items()}
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            functional_call(model, fake, (mode.from_tensor(x),))
    return counter.get_total_flops()


def _fvcore(model: nn.Module, x: torch.Tensor) -> object:
    counter = importlib.import_module("fvcore.nn").FlopCountAnalysis
    counted = counter(model, x).unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    return counted.total()


def _ptflops(backend: str) -> Tool:
    def count(model: nn.Module, x: torch.Tensor) -> object:
        counted = importlib.import_module("ptflops").get_model_complexity_info
        argument = next(iter(signature(model.forward).parameters))
        return counted(
            model, (1,), print_per_layer_stat=False, as_strings=False, backend=backend,
            input_constructor=lambda _: {argument: x},
        )  # fmt: skip

    return count


def _thop(model: nn.Module, x: torch.Tensor) -> object:
    return importlib.import_module("thop").profile(model, (x,), verbose=False)


def _torchinfo(model: nn.Module, x: torch.Tensor) -> object:
    return importlib.import_module("torchinfo").summary(model, input_data=[x], verbose=0)


def _calflops(model: nn.Module, x: torch.Tensor) -> object:
    counted = importlib.import_module("calflops").calculate_flops
    return counted(model=model, args=[x], print_results=False, output_as_string=False)


def _flops_profiler(model: nn.Module, x: torch.Tensor) -> object:
    counted = importlib.import_module("flops_profiler.profiler").get_model_profile
    return counted(model, args=[x], print_profile=False, detailed=False, warm_up=0)


def _moduleprofiler(model: nn.Module, x: torch.Tensor) -> object:
    profiler = importlib.import_module("moduleprofiler").ModuleProfiler()
    return profiler.count_params(model), profiler.estimate_ops(model, x)


#: By name: the module that must be there, and what to call.
TOOLS: dict[str, tuple[str, Tool]] = {
    "profilerkit.profile": ("profilerkit_torch", _profile),
    "empty mode": ("torch", _empty_mode),
    "FlopCounterMode": ("torch", _flop_counter_mode),
    "over fake tensors": ("torch", _over_fake_tensors),
    "torchinfo": ("torchinfo", _torchinfo),
    "thop": ("thop", _thop),
    "fvcore": ("fvcore", _fvcore),
    "ptflops aten": ("ptflops", _ptflops("aten")),
    "ptflops pytorch": ("ptflops", _ptflops("pytorch")),
    "calflops": ("calflops", _calflops),
    "flops-profiler": ("flops_profiler", _flops_profiler),
    "moduleprofiler": ("moduleprofiler", _moduleprofiler),
}


def tiny_layers(pairs: int = 200) -> nn.Module:
    """Build a stack in which every layer is nearly free: what is left is the cost of watching."""
    return nn.Sequential(*(layer for _ in range(pairs) for layer in (nn.Linear(8, 8), nn.ReLU())))


class LastOf(nn.Module):
    """A recurrent network that returns its outputs alone, as tools expect."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs of all steps."""
        return self.inside(x)[0]  # type: ignore[no-any-return]


def _of_images(name: str) -> Callable[[], tuple[nn.Module, torch.Tensor]]:
    return lambda: (getattr(importlib.import_module("models"), name)(), torch.randn(1, 3, 224, 224))


def _of_words(model: str, config: str, **settings: Any) -> Callable[[], tuple[nn.Module, torch.Tensor]]:
    def build() -> tuple[nn.Module, torch.Tensor]:
        transformers: Any = importlib.import_module("transformers")
        configured = getattr(transformers, config)(**settings)
        return getattr(transformers, model)(configured), torch.randint(0, 30000, (1, 128))

    return build


#: Random weights, an input of one sample: an image of 224 x 224, 128 words, or 64 steps.
MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "ResNet-18": _of_images("resnet18"),
    "ResNet-50": _of_images("resnet50"),
    "MobileNetV2": _of_images("mobilenet_v2"),
    "ViT-B/16": _of_images("vit_b_16"),
    "BERT-base": _of_words("BertModel", "BertConfig", return_dict=False),
    "GPT-2": _of_words("GPT2LMHeadModel", "GPT2Config"),
    "LSTM": lambda: (LastOf(nn.LSTM(128, 256, 2, batch_first=True)), torch.randn(1, 64, 128)),
    "200 tiny pairs": lambda: (tiny_layers(), torch.randn(1, 8)),
}


def time_tool(tool: Tool, model: nn.Module, x: torch.Tensor, samples: int) -> dict[str, Any]:
    """Return seconds of forward pass and tool, taken in turn, and apart from these that of the first call of the tool.

    Small models get more rounds, for a second in all.
    """
    times: dict[str, list[float]] = {"forward": [], "tool": []}
    until = time.perf_counter() + 1
    while len(times["tool"]) <= samples or (time.perf_counter() < until and len(times["tool"]) < 40):
        fresh = copy.deepcopy(model)
        for name in ("forward", "tool") if len(times["tool"]) % 2 else ("tool", "forward"):
            start = time.perf_counter()
            if name == "tool":
                with redirect_stdout(StringIO()):
                    tool(fresh, x)
            else:
                with torch.no_grad():
                    model(x)
            times[name].append(time.perf_counter() - start)
    return {"cold": times["tool"][0], **{name: seconds[1:] for name, seconds in times.items()}}


def measure_model(tool: str, samples: int, name: str) -> dict[str, Any]:
    """Return what was measured of a tool with a model; for ours the number of operators too."""
    needed, call = TOOLS[tool]
    torch.manual_seed(0)
    model, x = MODELS[name]()
    with torch.no_grad():  # the framework's own first call is no tool's
        model.eval()(x)
    start = time.perf_counter()
    importlib.import_module(needed)
    imported = time.perf_counter() - start
    times = time_tool(call, model, x, samples)
    times["cold"] += imported
    if call is _profile:
        times["operators"] = count_operators(model, x)
    return times


def count_operators(model: nn.Module, x: torch.Tensor) -> int:
    """Return how many operators the trace of a model has."""
    from profilerkit import ModelInputs
    from profilerkit_torch import TorchBackend

    return len(TorchBackend().trace(model, ModelInputs(x)).operators)


def main(tool: str, samples: str, *names: str) -> None:
    """Print what was measured of each model, or why it was not."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    needed, _ = TOOLS[tool]
    if find_spec(needed.partition(".")[0]) is None:
        print("\n".join([json.dumps({"error": f"No module named {needed!r}"})] * len(names)), flush=True)
        return
    for name in names:
        try:
            print(json.dumps(measure_model(tool, int(samples), name)), flush=True)
        except Exception as error:  # whatever a tool raises for a model
            print(json.dumps({"error": f"{type(error).__name__}: {error}"[:200]}), flush=True)
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
