"""How the time of a static profile grows: with layers, levels, operators, parameters, the batch, models of an audit."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from audit_engines import audit_models
from torch import nn
from trace_tools import STATIC, tiny_layers

from profilerkit import profile

from .options import Options
from .processes import ask
from .tables import Table

__all__ = ["SHOWN", "measure"]

_PICTURE = "pictures/speed_growth.png"
#: How the page shows the picture.
SHOWN = f""".. image:: {_PICTURE}
   :alt: Milliseconds of a static profile by the number of layers, levels, operators, parameters, samples and models"""
COUNTS, QUICK_COUNTS = (10, 100, 1_000, 10_000), (10, 100)
#: The largest number of what is not tried ten thousand times: Python's stack ends before, a model takes a process.
MOST = {"levels of layers": 1_000, "models of an audit": 1_000}


class Repeated(nn.Module):
    """A module that calls one operator again and again."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what is left of the input after all calls."""
        for _ in range(self.times):
            x = torch.relu(x)
        return x


def nest_layers(depth: int) -> nn.Module:
    """Return so many levels of layers, each inside of the other."""
    nested: nn.Module = nn.Linear(8, 8)
    for _ in range(depth):
        nested = nn.Sequential(nested, nn.ReLU())
    return nested


def profile_static(model: nn.Module, x: torch.Tensor) -> float:
    """Return the seconds of processor time of the fastest of three static profiles."""
    model.eval()
    times = []
    for _ in range(3):
        gc.collect()
        start = time.process_time()
        profile(model, x, metrics=STATIC)
        times.append(time.process_time() - start)
    return min(times)


def _time_audit(count: int) -> float:
    """Return the wall seconds of an audit of so many models."""
    start = time.perf_counter()
    audit_models(count)
    return time.perf_counter() - start


#: What grows, and the seconds for a number of it.
GROWING: Mapping[str, Callable[[int], float]] = {
    "layers in a row": lambda count: profile_static(tiny_layers(count // 2), torch.randn(1, 8)),
    "levels of layers": lambda count: profile_static(nest_layers(count), torch.randn(1, 8)),
    "operators of one layer": lambda count: profile_static(Repeated(count), torch.randn(1, 8)),
    "parameters, in thousands": lambda count: profile_static(nn.Linear(1_000, count), torch.randn(1, 1_000)),
    "samples of a batch": lambda count: profile_static(tiny_layers(10), torch.randn(count, 8)),
    "models of an audit": _time_audit,
}


def measure(options: Options) -> dict[str, Table]:
    """Return the table of times by what grows, and of a Llama on the meta device; draw the picture of the first."""
    sys.setrecursionlimit(20_000)
    counts = QUICK_COUNTS if options.quick else COUNTS
    profile_static(tiny_layers(1), torch.randn(1, 8))  # what is imported at the first call
    times = {
        name: [seconds(count) for count in counts if count <= MOST.get(name, count)]
        for name, seconds in GROWING.items()
    }
    if not options.quick:
        draw(times, counts)
    rows = [
        (name, *(f"{1e3 * spent:,.1f} ms" for spent in spents), *["-"] * (len(counts) - len(spents)))
        for name, spents in times.items()
    ]
    return {"growth": Table(("number", *(f"{count:,}" for count in counts)), tuple(rows)), "Llama": _measure_llama()}


def _measure_llama() -> Table:
    """Return what a Llama of 70 billion parameters takes on the meta device."""
    answer = ask("llama_trace.py")
    if "error" in answer:
        raise SystemExit(f"Llama: {answer['error']}")
    return Table(("Llama of 70 billion parameters", "2,048 words"), tuple(answer.items()))


def draw(times: Mapping[str, list[float]], counts: tuple[int, ...]) -> None:
    """Draw the times, each in those of its first number, on logarithmic axes, beside a straight line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, spents in times.items():
        axes.loglog(counts[: len(spents)], [1e3 * spent for spent in spents], marker="o", label=name)
    axes.loglog(counts, [count * 0.1 for count in counts], color="gray", linestyle="--", label="0.1 ms each")
    axes.set_xlabel("number")
    axes.set_ylabel("milliseconds of a static profile")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(Path(__file__).parents[2] / "docs" / _PICTURE, dpi=100)
