"""Quality of the search for steps in times: nights until a step of 5 % is reported, and false alarms a year.

Real noise is measured first: a few computations in turn, many times, on this machine as busy as it is. Nights are drawn
from it in blocks, so that what lasts for a while is kept. Each night the newest nights are searched as `profilerkit
regressions` does, with the rate controlled over all models.

    python benchmarks/regressions.py --seconds 20 --models 8 --nights 60 --trials 10
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from profilerkit.audits.steps import MIN_NIGHTS, controlled, splits_of

Floats = NDArray[np.float64]
BLOCK = 5


def computations() -> list[Callable[[], object]]:
    """Return computations of several kinds: products, sorting, element-wise, plain Python."""
    generator = np.random.default_rng(0)
    square, long = generator.random((192, 192)), generator.random(200_000)
    return [lambda: square @ square, lambda: np.sort(long), lambda: np.exp(long), lambda: sum(range(60_000))]


def noise(seconds: float) -> list[Floats]:
    """Return for each computation the logarithms of its medians of 15 runs each, measured in turn."""
    medians: list[list[float]] = [[] for _ in computations()]
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(medians[0]) < 2 * BLOCK:
        for values, computation in zip(medians, computations(), strict=True):
            times = []
            for _ in range(15):
                start = time.perf_counter()
                computation()
                times.append(time.perf_counter() - start)
            values.append(float(np.log(statistics.median(times))))
    return [np.asarray(values) for values in medians]


def nights(series: Floats, count: int, generator: np.random.Generator) -> Floats:
    """Return as many nights, drawn in blocks of consecutive measurements."""
    starts = generator.integers(0, len(series) - BLOCK + 1, count // BLOCK + 1)
    drawn: Floats = np.concatenate([series[start : start + BLOCK] for start in starts])[:count]
    return drawn


def alarms(fleet: list[Floats], night: int, window: int, rate: float, least: float) -> list[tuple[int, int]]:
    """Return the models that are reported in a night, each with the night of its step."""
    begin = max(0, night - window)
    seen = [series[begin:night] for series in fleet]
    levels = [np.median(part) for part in seen]
    common = np.median([part - level for part, level in zip(seen, levels, strict=True)], axis=0)
    splits = [(model, split) for model, part in enumerate(seen) for split in splits_of(part - common, night)]
    rates = controlled([split.p for _, split in splits])
    return [
        (model, begin + split.index)
        for (model, split), q in zip(splits, rates, strict=True)
        if q <= rate and abs(np.expm1(split.after - split.before)) >= least
    ]


def main() -> None:
    """Measure noise and print both figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="how long noise is measured")
    parser.add_argument(
        "--gaussian", type=float, help="independent noise of so many percent, instead of measured noise"
    )
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--nights", type=int, default=60, help="nights of each trial without a step")
    parser.add_argument("--trials", type=int, default=10, help="how many steps are planted")
    parser.add_argument("--step", type=float, default=0.05)
    parser.add_argument("--window", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--min-change", type=float, default=0.02)
    arguments = parser.parse_args()
    generator = np.random.default_rng(1)
    measured = (
        noise(arguments.seconds)
        if arguments.gaussian is None
        else list(generator.normal(0, arguments.gaussian / 100, (4, 400)))
    )
    deviations = [100 * float(1.4826 * np.median(np.abs(each - np.median(each)))) for each in measured]
    print(f"{len(measured[0])} measurements; noise in %: {', '.join(f'{each:.2f}' for each in deviations)}")
    how = arguments.window, arguments.rate, arguments.min_change

    def fleet(count: int) -> list[Floats]:
        return [nights(measured[model % len(measured)], count, generator) for model in range(arguments.models)]

    quiet = fleet(arguments.nights)
    false: list[tuple[int, int]] = []
    for night in range(MIN_NIGHTS, arguments.nights):
        for model, at in alarms(quiet, night, *how):
            if all(model != other or abs(at - before) > 3 for other, before in false):
                false.append((model, at))
    searched = arguments.nights - MIN_NIGHTS
    print(f"false alarms: {len(false)} in {searched} nights of {arguments.models} models")
    yearly = 365 * len(false) / searched
    print(f"  that is {yearly:.1f} a year, {yearly / arguments.models:.2f} a model")
    delays: list[int | None] = []
    for trial in range(arguments.trials):
        series, planted, model = fleet(60), 30, trial % arguments.models
        series[model][planted:] += np.log1p(arguments.step)
        reported = (
            night - planted
            for night in range(planted + 3, 60)
            if any(which == model and abs(at - planted) <= 3 for which, at in alarms(series, night, *how))
        )
        delays.append(next(reported, None))
    times = sorted(each for each in delays if each is not None)
    print(f"steps of {100 * arguments.step:g} %: {len(times)} of {len(delays)} reported within 30 nights")
    if times:
        print(f"  nights until then: median {statistics.median(times):g}, from {times[0]} to {times[-1]}")


if __name__ == "__main__":
    main()
