"""One static trace (params, size, MACs, FLOPs, memory, layers) beside one forward pass and torch's own counter."""

import sys
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from profilerkit import Ratio
from profilerkit.measurement import Sampling, measure_interleaved
from profilerkit_torch import TorchBackend

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from models import mobilenet_v2, resnet18, resnet50, vit_b_16
from profilerkit import ModelInputs

IMAGE = (1, 3, 224, 224)


def tiny_layers(pairs: int = 200) -> torch.nn.Module:
    """Build a stack in which every layer is nearly free: what is left is the cost of watching."""
    layers = [layer for _ in range(pairs) for layer in (torch.nn.Linear(8, 8), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers)


def main() -> None:
    """Measure trace, forward pass and FlopCounterMode in turn for each model, and print the ratios."""
    models = {
        "ResNet-18": (resnet18(), torch.randn(IMAGE)),
        "ResNet-50": (resnet50(), torch.randn(IMAGE)),
        "MobileNetV2": (mobilenet_v2(), torch.randn(IMAGE)),
        "ViT-B/16": (vit_b_16(), torch.randn(IMAGE)),
        "200 tiny layers": (tiny_layers(), torch.randn(1, 8)),
    }
    print(f"{'':<16} {'forward':>10} {'trace':>10} {'trace/forward':>22} {'FlopCounterMode/trace':>24}")
    for name, (model, example) in models.items():
        print(f"{name:<16} {measured(model.eval(), example)}")


def measured(model: torch.nn.Module, example: torch.Tensor) -> str:
    backend, inputs = TorchBackend(), ModelInputs(example)

    def count() -> None:
        with FlopCounterMode(display=False), torch.no_grad():
            model(example)

    with backend.forward(model, inputs) as forward:
        calls = [forward, lambda: backend.trace(model, inputs), count]
        run, trace, peer = measure_interleaved(calls, Sampling(num_iters=15, warmup=3))
    own, other = Ratio.of(run, trace), Ratio.of(trace, peer)
    return (
        f"{1e3 * run.median:7.1f} ms {1e3 * trace.median:7.1f} ms "
        f"{own.value:8.2f} [{own.low:.2f}, {own.high:.2f}] {other.value:10.2f} [{other.low:.2f}, {other.high:.2f}]"
    )


if __name__ == "__main__":
    main()
