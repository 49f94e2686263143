"""Two models in turn: the same one twice is called equal, one that is 3 % faster is called faster; and in what time.

``python benchmarks/timing.py [TRIALS [MODEL ...]]``: 100 trials of each model, a tenth of that for ResNet-50.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import nn

from profilerkit import ModelInputs, Ratio
from profilerkit.backend import RunOptions
from profilerkit.times.sampling import Sampling, measure, measure_interleaved
from profilerkit_torch import TorchBackend

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from models import resnet50

#: One thread: of several, each waits for the one that another program of a shared machine has stopped.
OPTIONS = RunOptions(num_threads=1)
BACKEND = TorchBackend()


def mlp() -> tuple[nn.Module, torch.Tensor]:
    """Build a tiny MLP and its input."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).eval(), torch.randn(8, 64)


def image_network() -> tuple[nn.Module, torch.Tensor]:
    """Build a ResNet-50 and its input."""
    return resnet50().eval(), torch.randn(1, 3, 224, 224)


def stack(pairs: int) -> nn.Module:
    """Return so many pairs of a convolution and a ReLU."""
    layers = [layer for _ in range(pairs) for layer in (nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*layers).eval()


def teacher_and_student() -> tuple[nn.Module, nn.Module, torch.Tensor]:
    """Build a stack of 100 pairs and one of 97, anew for each trial: where weights lie in memory counts too."""
    return stack(100), stack(97), torch.randn(1, 32, 16, 16)


MODELS: dict[str, tuple[Callable[[], tuple[nn.Module, torch.Tensor]], float]] = {
    "tiny MLP": (mlp, 1.0),
    "ResNet-50": (image_network, 0.1),
}


def main(trials: int = 20, names: tuple[str, ...] = tuple(MODELS)) -> None:
    """Run the trials and print what came of them: medians over the trials, and the worst."""
    print(f"{'':<34} {'':>10} {'error':>8} {'worst':>8} {'samples':>8} {'seconds':>8}")
    for name in names:
        build, share = MODELS[name]
        model, x = build()
        count = max(2, round(trials * share))
        same_twice(name, model, x, count)
        one_after_the_other(model, x, count)
    faster_student(trials)


def same_twice(name: str, model: nn.Module, x: torch.Tensor, trials: int) -> None:
    """Compare a model with itself as `profilerkit.compare` does."""
    runs = [in_turn(model, model, x) for _ in range(trials)]
    hits = sum(ratio.low <= 1 <= ratio.high for ratio, _, _ in runs)
    print_line(f"{name} twice, in turn", f"1 in {hits}/{trials}", [(abs(r.value - 1), n, s) for r, n, s in runs])


def one_after_the_other(model: nn.Module, x: torch.Tensor, trials: int) -> None:
    """Measure a model twice, each time for itself: what taking turns is held against."""
    runs = []
    for _ in range(trials):
        start = time.perf_counter()
        times = []
        for _ in range(2):
            with BACKEND.run(model, ModelInputs(x), options=OPTIONS) as call:
                times.append(measure(call, Sampling()))
        error = abs(float(times[1]) / float(times[0]) - 1)
        runs.append((error, len(times[0].samples), time.perf_counter() - start))
    print_line("  one after the other", "", runs)


def faster_student(trials: int) -> None:
    """Compare 100 layers with 97 of the same: three per cent less to do."""
    runs = [in_turn(*teacher_and_student()) for _ in range(trials)]
    faster = sum(ratio.high < 1 for ratio, _, _ in runs)
    print_line("97 layers of 100", f"< 1 in {faster}/{trials}", [(abs(r.value - 0.97), n, s) for r, n, s in runs])


def in_turn(first: nn.Module, second: nn.Module, x: torch.Tensor) -> tuple[Ratio, int, float]:
    """Return the ratio of two models, of how many pairs it is made, and how many seconds that took."""
    start = time.perf_counter()
    inputs = ModelInputs(x)
    with (
        BACKEND.run(first, inputs, options=OPTIONS) as one,
        BACKEND.run(second, inputs, options=OPTIONS) as other,
    ):
        a, b = measure_interleaved([one, other], Sampling())
    return Ratio.of(a, b), len(a.samples), time.perf_counter() - start


def print_line(name: str, verdict: str, runs: list[tuple[float, int, float]]) -> None:
    """Print one line of errors, samples and seconds."""
    errors, samples, seconds = (list(times) for times in zip(*runs, strict=True))
    figures = f"{median(errors):8.2%} {max(errors):8.2%} {median(samples):8.0f} {median(seconds):8.2f}"
    print(f"{name:<34} {verdict:>10} {figures}", flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(int(arguments[0]) if arguments else 100, tuple(arguments[1:]) or tuple(MODELS))
