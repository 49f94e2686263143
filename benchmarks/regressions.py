"""Quality of the search for steps in times: nights until a step of 5 % is reported, and false alarms a year.

Real noise is measured first: as in an audit, each night is a process of its own that times a few computations and keeps
the median of each. Nights are drawn from these in blocks, so that what lasts for a while is kept; a night is the same
for all models, as it is on a machine. Each night the newest nights are searched as `profilerkit regressions` does, with
the rate controlled over all models.

    python benchmarks/regressions.py --seconds 150 --save noise.json
    python benchmarks/regressions.py --noise noise.json --models 8 --nights 365 --trials 40
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from profilerkit_audits.nights import find_share
from profilerkit_audits.steps import MIN_NIGHTS, control_rate, find_splits

Floats = NDArray[np.float64]
BLOCK = 5
#: Runs of each computation in a night, whose median is the night's time.
RUNS = 31
#: A step that is reported within so many nights of its place is the planted one.
NEAR = 3
#: Nights before a planted step, and those in which it is to be reported.
BEFORE, WITHIN = 60, 30


def computations() -> list[Callable[[], object]]:
    """Return computations of several kinds: products, sorting, element-wise, copies, plain Python."""
    generator = np.random.default_rng(0)
    square, long = generator.random((192, 192)), generator.random(200_000)
    large = generator.random(2_000_000)
    return [
        lambda: square @ square,
        lambda: np.sort(long),
        lambda: np.exp(long),
        lambda: large + 1.0,
        lambda: np.fft.rfft(long),
        lambda: np.tanh(long),
        lambda: sum(range(60_000)),
        lambda: sorted(str(number) for number in range(8_000)),
    ]


def night() -> list[float]:
    """Return the logarithm of the median time of each computation, run in turn."""
    several = computations()
    times: list[list[float]] = [[] for _ in several]
    for _ in range(RUNS):
        for one_time, computation in zip(times, several, strict=True):
            start = time.perf_counter()
            computation()
            one_time.append(time.perf_counter() - start)
    return [float(np.log(statistics.median(one_time))) for one_time in times]


def noise(seconds: float) -> list[Floats]:
    """Return the series of each computation: a process a night, for so many seconds."""
    series: list[list[float]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(series) < 2 * BLOCK:
        command = [sys.executable, __file__, "--one-night"]
        series.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return [np.asarray(values) for values in zip(*series, strict=True)]


def nights(length: int, count: int, block: int, generator: np.random.Generator) -> list[int]:
    """Return the numbers of as many nights, drawn in blocks of consecutive measurements."""
    starts = generator.integers(0, length - block + 1, count // block + 1)
    return [int(start) + night for start in starts for night in range(block)][:count]


def alarms(fleet: list[Floats], until: int, window: int, rate: float, least: float) -> list[tuple[int, int]]:
    """Return the models that are reported in a night, each with the night of its step."""
    begin = max(0, until - window)
    seen = np.array([series[:until] for series in fleet])
    unshared = seen - find_share(seen - np.median(seen, axis=1, keepdims=True))
    splits = [
        (model, split)
        for model, one_night in enumerate(unshared)
        for split in find_splits(one_night[begin:], until, one_night)
    ]
    rates = control_rate([split.p for _, split in splits])
    return [
        (model, begin + split.index)
        for (model, split), q in zip(splits, rates, strict=True)
        if q <= rate and abs(np.expm1(split.after - split.before)) >= least
    ]


@dataclass
class Fleet:
    """Models whose nights are drawn from measured noise, and how they are searched."""

    measured: list[Floats]
    models: int
    how: tuple[int, float, float]
    block: int
    generator: np.random.Generator

    def nights(self, count: int) -> list[Floats]:
        """Return as many nights of each model, the same ones for all models."""
        drawn = nights(len(self.measured[0]), count, self.block, self.generator)
        return [self.measured[model % len(self.measured)][drawn] for model in range(self.models)]

    def false_alarms(self, count: int) -> int:
        """Return how many alarms there are in nights without a step; one that is raised again counts once."""
        quiet = self.nights(count)
        false: list[tuple[int, int]] = []
        for until in range(MIN_NIGHTS, count):
            for model, at in alarms(quiet, until, *self.how):
                if all(model != other or abs(at - before) > NEAR for other, before in false):
                    false.append((model, at))
        return len(false)

    def delay(self, model: int, step: float) -> int | None:
        """Return how many nights pass until a step is reported, the night of the step being the first; None for 30."""
        series, planted = self.nights(BEFORE + WITHIN), BEFORE
        series[model][planted:] += np.log1p(step)
        for until in range(planted + 1, planted + WITHIN + 1):
            alarmed = alarms(series, until, *self.how)
            if any(which == model and abs(at - planted) <= NEAR for which, at in alarmed):
                return until - planted
        return None


def describe_nights(series: list[Floats]) -> str:
    """Return the spread of each computation, and how much consecutive nights have in common."""
    deviations = [100 * float(1.4826 * np.median(np.abs(one_night - np.median(one_night)))) for one_night in series]
    shared = [float(np.corrcoef(one_night[:-1], one_night[1:])[0, 1]) for one_night in series]
    return (
        f"{len(series[0])} nights measured; noise in %: {', '.join(f'{deviation:.2f}' for deviation in deviations)}; "
        f"correlation of consecutive nights: {', '.join(f'{share:.2f}' for share in shared)}"
    )


def report(fleet: Fleet, count: int, trials: int, step: float) -> None:
    """Print both figures."""
    false = fleet.false_alarms(count)
    yearly = 365 * false / (count - MIN_NIGHTS)
    print(f"false alarms: {false} in {count - MIN_NIGHTS} nights of {fleet.models} models")
    print(f"  that is {yearly:.1f} a year, {yearly / fleet.models:.2f} a model", flush=True)
    delays = [fleet.delay(trial % fleet.models, step) for trial in range(trials)]
    times = sorted(delay for delay in delays if delay is not None)
    print(f"steps of {100 * step:g} %: {len(times)} of {len(delays)} reported within 30 nights")
    if times:
        last = times[int(0.9 * (len(times) - 1))]
        print(f"  nights until then: median {statistics.median(times):g}, nine of ten {last}, at the most {times[-1]}")


def main() -> None:
    """Measure noise, or read it, and print both figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="how long noise is measured")
    parser.add_argument("--save", type=Path, help="write the measured noise to a file, and search nothing")
    parser.add_argument("--noise", type=Path, help="read noise that was measured before")
    parser.add_argument("--gaussian", type=float, help="independent noise of so many percent, instead")
    parser.add_argument("--one-night", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--nights", type=int, default=365, help="nights without a step")
    parser.add_argument("--trials", type=int, default=10, help="how many steps are planted")
    parser.add_argument("--step", type=float, default=0.05)
    parser.add_argument("--block", type=int, default=BLOCK, help="so many consecutive nights are drawn together")
    parser.add_argument("--window", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--min-change", type=float, default=0.02)
    arguments = parser.parse_args()
    if arguments.one_night:
        print(json.dumps(night()))
        return
    generator = np.random.default_rng(1)
    if arguments.gaussian is not None:
        measured = list(generator.normal(0, arguments.gaussian / 100, (8, 400)))
    elif arguments.noise is not None:
        measured = [np.asarray(load) for load in json.loads(arguments.noise.read_text(encoding="utf-8"))]
    else:
        measured = noise(arguments.seconds)
    print(describe_nights(measured), flush=True)
    if arguments.save is not None:
        arguments.save.write_text(json.dumps([value.tolist() for value in measured]), encoding="utf-8")
        return
    how = arguments.window, arguments.rate, arguments.min_change
    fleet = Fleet(measured, arguments.models, how, arguments.block, generator)
    report(fleet, arguments.nights, arguments.trials, arguments.step)


if __name__ == "__main__":
    main()
