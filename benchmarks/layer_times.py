"""A forward pass with every layer timed beside the plain one, and beside other tools that time layers, where they are.

All run in turn, in inference mode, on a CPU or where the model is. The figure is the time of the pass over that of the
plain one; putting hooks on before it and taking them off is not part of it.
"""

import functools
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from trace_tools import tiny_layers

from profilerkit import Measurement, Ratio
from profilerkit.times.run import Run
from profilerkit.times.sampling import Sampling, measure_interleaved
from profilerkit_torch import layer_times

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from models import resnet50

Watch = Callable[[nn.Module], AbstractContextManager[Any]]


@contextmanager
def layer_prof(model: nn.Module) -> Iterator[None]:
    """Watch with torchnnprofiler's LayerProf, which notes the times of every layer."""
    with importlib.import_module("nnprofiler").LayerProf(model):
        yield


@contextmanager
def module_profiler(model: nn.Module) -> Iterator[None]:
    """Watch with the hooks that moduleprofiler has for its `estimate_inference_time`."""
    profiler = importlib.import_module("moduleprofiler").ModuleProfiler()
    for module in model.modules():
        profiler._register_forward_pre_hook(module, profiler._inference_time_start_fn)
        profiler._register_forward_hook(module, profiler._inference_time_end_fn)
    try:
        yield
    finally:
        profiler._remove_registered_hooks()
        for module in model.modules():
            profiler._delattr(module, [profiler.inference_start_attr, profiler.inference_end_attr])


@contextmanager
def flops_profiler(model: nn.Module) -> Iterator[None]:
    """Watch with flops-profiler, the fork of DeepSpeed's, which counts besides."""
    profiler = importlib.import_module("flops_profiler.profiler").FlopsProfiler(model)
    profiler.start_profile()
    try:
        yield
    finally:
        profiler.end_profile()


TOOLS: dict[str, Watch] = {
    "plain": lambda model: nullcontext(),
    "profilerkit": functools.cache(layer_times),
    "torchnnprofiler": layer_prof,
    "moduleprofiler": module_profiler,
    "flops-profiler": flops_profiler,
}


class WatchedRun(Run):
    """A pass of a model under a tool; its seconds are those of the pass alone."""

    def __init__(self, model: nn.Module, example: torch.Tensor, watch: Watch) -> None:
        super().__init__(lambda: model(example))
        self.model, self.watch = model, watch

    def seconds(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """Run one pass and return its seconds, without those of putting hooks on and taking them off."""
        with self.watch(self.model), torch.no_grad():
            return super().seconds(clock)


#: Each model with its input, and how many rounds it gets.
MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor, int]]] = {
    "200 tiny Linear + ReLU pairs": lambda: (tiny_layers(), torch.randn(1, 8), 60),
    "ResNet-50": lambda: (resnet50(), torch.randn(1, 3, 224, 224), 40),
}


def time_passes(model: nn.Module, example: torch.Tensor, rounds: int) -> dict[str, Measurement | str]:
    """Return the time of a pass under each tool, all in turn, or why a tool is left out."""
    calls: dict[str, WatchedRun] = {}
    times: dict[str, Measurement | str] = {}
    for tool, watch in TOOLS.items():
        call = WatchedRun(model.eval(), example, watch)
        try:
            call.seconds()
        except ImportError as error:
            times[tool] = f"left out: {error}"
        else:
            calls[tool] = call
    measured = measure_interleaved(list(calls.values()), Sampling(num_iters=rounds, warmup=3))
    return {**dict(zip(calls, measured, strict=True)), **times}


def main() -> None:
    """Measure the tools in turn for each model, and print their ratios to the plain pass; of one model as JSON."""
    if len(sys.argv) == 2:
        times = time_passes(*MODELS[sys.argv[1]]())
        print(json.dumps({tool: one if isinstance(one, str) else one.samples for tool, one in times.items()}))
        return
    for name, build in MODELS.items():
        print(name)
        times = time_passes(*build())
        plain = times["plain"]
        for tool, result in times.items():
            if isinstance(result, str) or isinstance(plain, str):
                print(f"  {tool:<16} {result}")
                continue
            ratio = Ratio.of(plain, result)
            print(f"  {tool:<16} {1e3 * result.median:8.2f} ms {ratio.value:8.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")


if __name__ == "__main__":
    main()
