"""How often the interval of a ratio holds the truth: a model against itself, and one that has 1 % more to do.

``python benchmarks/coverage.py TRIALS [--model mlp|resnet50|stack] [--neighbor] [--slower] [--seconds S]
[--precision P] [--apart]``

Each trial is one comparison, as `profilerkit.compare` makes it. With ``--neighbor`` another process for each core
sleeps and works meanwhile, for random times of 3 to 300 ms. With ``--slower`` the second model is the first with one
layer more for a hundred (a stack of 100 convolutions, whose weights both share). With ``--apart`` the two are measured
in processes of their own, new ones for each trial. The last lines are shares with their own 95 % intervals (Wilson,
1927); a long run can be made in parts: add up the counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

from profilerkit import Ratio, compare
from profilerkit.isolation import isolated_comparison

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "examples"))
SHAPES = {"mlp": (64,), "resnet50": (3, 224, 224), "stack": (32, 16, 16)}
#: How long the neighbor works, and sleeps: seconds, drawn anew each time, as often short as long.
SHORTEST, LONGEST = 0.003, 0.3


def mlp() -> Any:
    """Build a tiny MLP."""
    from torch import nn

    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).eval()


def resnet50() -> Any:
    """Build a ResNet-50."""
    from models import resnet50 as build

    return build().eval()


def stack(pairs: int = 100) -> Any:
    """Build a stack of convolutions."""
    from torch import nn

    layers = [layer for _ in range(pairs) for layer in (nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*layers).eval()


def works_and_sleeps(seed: int) -> None:
    """Sleep and work at random, until the process is ended."""
    draw = random.Random(seed)
    while True:
        for working in (False, True):
            seconds = SHORTEST * (LONGEST / SHORTEST) ** draw.random()
            end = time.perf_counter() + seconds
            if not working:
                time.sleep(seconds)
            while working and time.perf_counter() < end:
                sum(range(1000))


@contextmanager
def neighbors(number: int) -> Iterator[None]:
    """Let so many other processes work and sleep meanwhile."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=works_and_sleeps, args=(seed,), daemon=True) for seed in range(number)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def one_trial(arguments: argparse.Namespace) -> tuple[Ratio, int, float]:
    """Return the ratio of one comparison, of how many pairs it is made, and how many seconds that took."""
    how: dict[str, Any] = {
        "input_shape": SHAPES[arguments.model],
        "metrics": ["execution_time"],
        "num_threads": 1,  # of several, each waits for the one that another program has stopped
        "max_seconds": arguments.seconds,
        "relative_precision": arguments.precision,
    }
    start = time.perf_counter()
    if arguments.apart:
        made = isolated_comparison(*[f"{HERE}:{arguments.model}"] * 2, timeout=600, **how)
    else:
        first = arguments.built
        made = compare(first, one_more(first) if arguments.slower else first, **how)
    return made.ratio("execution_time"), len(made.reference["execution_time"].samples), time.perf_counter() - start


def one_more(model: Any) -> Any:
    """Return the stack with its first pair of layers once more at the end: one hundredth more to do."""
    from torch import nn

    layers = list(model)
    return nn.Sequential(*layers, *layers[:2]).eval()


def bounds(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson, 1927)."""
    z = NormalDist().inv_cdf(0.975)
    share, spread = hits / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z * (share * (1 - share) / trials + spread / (4 * trials)) ** 0.5 / (1 + spread)
    return middle - half, middle + half


def main() -> None:
    """Run the trials; print each that misses, and the share of those that do not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trials", type=int)
    parser.add_argument("--model", choices=SHAPES, default="mlp")
    parser.add_argument("--neighbor", action="store_true")
    parser.add_argument("--slower", action="store_true")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--precision", type=float, default=0.02, help="relative_precision; 0.01 to look for 1 %%")
    arguments = parser.parse_args()
    if arguments.slower:
        arguments.model = "stack"
        if arguments.apart:
            parser.error("--slower and --apart do not go together: the weights are shared")
    arguments.built = None if arguments.apart else globals()[arguments.model]()
    with neighbors(len(os.sched_getaffinity(0)) if arguments.neighbor else 0):
        trials = [shown(index, *one_trial(arguments), arguments.slower) for index in range(arguments.trials)]
    ratios = [ratio for ratio, _, _ in trials]
    counts = {"range only": sum(ratio.is_range for ratio in ratios)}
    if arguments.slower:
        counts["1 % more is found"] = sum(ratio.is_real and ratio.low > 1 for ratio in ratios)
    else:
        counts["the interval holds 1, or is a range"] = sum(not ratio.is_real for ratio in ratios)
    pairs, seconds = median(n for _, n, _ in trials), median(s for _, _, s in trials)
    width = median(ratio.high - ratio.low for ratio in ratios)
    print(f"median: {pairs:.0f} pairs, {seconds:.2f} s, interval {width:.2%} wide, load {os.getloadavg()[0]:.1f}")
    for name, hits in counts.items():
        low, high = bounds(hits, len(trials))
        print(f"{name}: {hits} of {len(trials)}, {hits / len(trials):.1%} [{low:.1%}, {high:.1%}]")


def shown(index: int, ratio: Ratio, pairs: int, seconds: float, slower: bool) -> tuple[Ratio, int, float]:
    """Print a trial that misses the truth."""
    if ratio.is_real != slower:
        print(f"{index}: {ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}], {pairs} pairs", flush=True)
    return ratio, pairs, seconds


if __name__ == "__main__":
    main()
