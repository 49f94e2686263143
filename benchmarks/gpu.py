"""Times and memory on a GPU, each beside torch's own word for it; results go to a file: ``make gpu``.

``python benchmarks/gpu.py FOLDER`` writes ``FOLDER/results.json``. The execution time stands beside that of
``torch.utils.benchmark`` over the same model, the predicted and the measured peak beside what the allocator gave out.
Without a GPU it says so and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from gpu_results import Result, write  # noqa: E402


def _perceptron() -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers), torch.randn(64, 4096)


def _convolutions() -> tuple[nn.Module, torch.Tensor]:
    widths = [3, 64, 128, 256, 512]
    steps = [
        [nn.Conv2d(one, two, 3, 2, 1, bias=False), nn.BatchNorm2d(two), nn.ReLU()] for one, two in pairwise(widths)
    ]
    return nn.Sequential(*[layer for three in steps for layer in three]), torch.randn(16, 3, 224, 224)


def _encoder() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), torch.randn(8, 256, 768)


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "perceptron": _perceptron,
    "convolutions": _convolutions,
    "encoder of 12 layers": _encoder,
}


def _seconds(model: nn.Module, x: torch.Tensor) -> float:
    from torch.utils.benchmark import Timer

    with torch.inference_mode():
        return float(Timer("model(x)", globals={"model": model, "x": x}).blocked_autorange(min_run_time=1.0).median)


def _allocated(model: nn.Module, x: torch.Tensor) -> int:
    """Return the peak of what the allocator gave out during a pass, the model's weights and the input aside."""
    with torch.inference_mode():
        model(x)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        model(x)
        torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def results() -> Iterator[Result]:
    """Yield what is measured, model by model."""
    from profilerkit import profile

    for name, build in MODELS.items():
        built, inputs = build()
        model, x = built.cuda().eval(), inputs.cuda()
        report: Any = profile(model, x, metrics=["execution_time", "measured_memory", "memory_footprint", "model_size"])
        time = report["execution_time"].median
        yield Result(name, "execution_time", time, _seconds(model, x), "torch.utils.benchmark", "s")
        allocated = _allocated(model, x) + x.nbytes
        yield Result(name, "measured_memory", report["measured_memory"], allocated, "the allocator", "bytes")
        predicted = report["memory_footprint"] - report["model_size"]
        yield Result(name, "memory_footprint without weights", predicted, allocated, "the allocator", "bytes")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the ratios, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("There is no GPU here that torch can use: nothing is measured, and nothing written.")
        return
    rows = list(results())
    for each in rows:
        number = f"{each.value:12.4g} {each.unit:<6} {each.ratio:6.3f} of {each.oracle_name}"
        print(f"{each.model:<22} {each.metric:<34} {number}")
    facts = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
    write(options.folder / "results.json", torch.cuda.get_device_name(), facts, rows)


if __name__ == "__main__":
    main()
