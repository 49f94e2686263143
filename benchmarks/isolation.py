"""What a process of its own costs a model; that ratios stay what they are; how soon planted models are ended.

``python benchmarks/isolation.py [TRIALS]``: 5 trials of each comparison unless given.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from profilerkit import Ratio, compare, isolated
from profilerkit.isolation import isolated_comparison
from profilerkit.models.loaders import load_model

HERE = str(Path(__file__).resolve())
PLANTED = Path(HERE).parents[1] / "tests" / "support" / "planted.py"
#: One thread: of several, each waits for the one that another program of a shared machine has stopped.
HOW: dict[str, Any] = {"num_threads": 1, "input_shape": (32, 16, 16), "metrics": ["execution_time"]}
PRELOAD = ["isolation_warm"]
STATIC: dict[str, Any] = {"input_shape": (32, 16, 16), "metrics": ["macs", "total_params"]}


def stack(pairs: int) -> Any:
    """Return so many pairs of a convolution and a ReLU."""
    from torch import nn

    layers = [layer for _ in range(pairs) for layer in (nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*layers).eval()


def shallow() -> Any:
    """Return 8 pairs: about a millisecond. More would be interrupted where others use the machine too."""
    return stack(8)


def deep() -> Any:
    """Return twice as many."""
    return stack(16)


def tiny() -> Any:
    """Return one pair: some hundred microseconds."""
    return stack(1)


def two() -> Any:
    """Return two pairs."""
    return stack(2)


def main(trials: int = 5) -> None:
    """Print all three tables."""
    # Processes that begin anew import `isolation_warm` too.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(HERE).parent), os.environ.get("PYTHONPATH")]))
    cost(trials)
    ratios(trials)
    endings()


def time_call(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def cost(trials: int) -> None:
    """Print what each way to start takes, beyond a profile, and beyond the imports where they are its own."""
    model = load_model(f"{HERE}:shallow")
    isolated(f"{HERE}:shallow", start_method="forkserver", preload=PRELOAD, **STATIC)  # the server itself, once
    ways: dict[str, Callable[[], object]] = {
        "imports": lambda: subprocess.run([sys.executable, "-c", f"import {', '.join(PRELOAD)}"], check=True),
        "profile, all imported": lambda: compare(model, model, **STATIC),
        "isolated, spawn": lambda: isolated(f"{HERE}:shallow", **STATIC),
        "isolated, forkserver that has imported": lambda: isolated(
            f"{HERE}:shallow", start_method="forkserver", preload=PRELOAD, **STATIC
        ),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(trials):
        for name, call in ways.items():
            taken[name].append(time_call(call))
    medians = {name: median(times) for name, times in taken.items()}
    medians["profile, all imported"] /= 2  # a comparison of two, neither of which remembers anything
    print(f"{'static metrics of 8 convolutions':<36} {'seconds':>8} {'beyond import and profile':>26}")
    for name, value in medians.items():
        base = medians["profile, all imported"] + (medians["imports"] if "spawn" in name else 0)
        print(f"{name:<36} {value:8.2f} {f'{value - base:26.2f}' if name.startswith('isolated') else ''}", flush=True)


def ratios(trials: int) -> None:
    """Print ratios in this process and of two, of equal models and of twice the work."""
    print(f"\n{'ratio of times, medians':<36} {'ratio':>8} {'low':>8} {'high':>8} {'1 in it':>8} {'first, ms':>10}")
    for first, second in (("shallow", "shallow"), ("shallow", "deep"), ("tiny", "tiny"), ("tiny", "two")):
        here: list[tuple[Ratio, float]] = []
        apart: list[tuple[Ratio, float]] = []
        for _ in range(trials):
            specs = [f"{HERE}:{first}", f"{HERE}:{second}"]
            for outcomes, made in (
                (here, compare(*map(load_model, specs), **HOW)),
                (apart, isolated_comparison(*specs, timeout=120, **HOW)),
            ):
                outcomes.append((made.ratio("execution_time"), float(made.reference["execution_time"])))
        for name, outcomes in (("in this process", here), ("each in its own", apart)):
            ends = [median(getattr(ratio, end) for ratio, _ in outcomes) for end in ("value", "low", "high")]
            covered = sum(ratio.low <= 1 <= ratio.high for ratio, _ in outcomes)
            shown = " ".join(f"{end:8.3f}" for end in ends)
            milliseconds = 1000 * median(seconds for _, seconds in outcomes)
            print(
                f"{f'{second}/{first}, {name}':<36} {shown} {f'{covered}/{trials}':>8} {milliseconds:10.3f}", flush=True
            )


#: Each planted model with its limits; what takes no limit ends by itself.
CASES: dict[str, dict[str, Any]] = {
    "endless_loop": {"timeout": 3},
    "deaf_loop": {"timeout": 3},
    "stopped": {"timeout": 3},
    "segfault": {},
    "leaves": {},
    "allocates_100_gb_at_once": {"memory": "500 MiB"},
    "allocates_100_gb": {"memory": "500 MiB"},
    "flood_on_stdout": {},
    "bomb_of_threads": {"max_threads": 300},
    "bomb_of_processes": {"max_threads": 60},
    "left_behind_and_hangs": {"timeout": 3},
    "closes_descriptors": {},
    "writes_into_descriptors": {},
}


def endings() -> None:
    """Print how long each planted model takes to become a report, and for a time limit how long after it."""
    print(f"\n{'planted model':<28} {'seconds':>8} {'after its time':>15}   reason")
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"PLANTED_MIB": "1024", "PLANTED_PIDS": str(Path(folder) / "pids")}
        isolated(f"{PLANTED}:fine", start_method="forkserver", preload=["numpy"], metrics=["macs"])
        with Path(os.devnull).open("w") as nothing:
            for name, limits in CASES.items():
                Path(os.environ["PLANTED_PIDS"]).write_text("")
                stderr, sys.stderr = sys.stderr, nothing
                try:
                    start = time.perf_counter()
                    report = isolated(f"{PLANTED}:{name}", start_method="forkserver", preload=["numpy"], **limits)
                finally:
                    sys.stderr = stderr
                seconds = time.perf_counter() - start
                after = f"{seconds - limits['timeout']:15.2f}" if "timeout" in limits else f"{'':>15}"
                message = (report.status("execution_time").missing or ("complete",))[0].partition(" while computing")[0]
                print(f"{name:<28} {seconds:8.2f} {after}   {message[:80]}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
