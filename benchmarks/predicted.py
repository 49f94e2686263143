"""How far predicted times are from measured ones: ``python benchmarks/predicted.py here.toml``.

The file is what ``profilerkit calibrate here.toml --num-threads 1`` wrote on this machine. 45 networks of nine families
are predicted and run, each at three batch sizes, forward and in training steps, eager and, one of each family,
compiled. The correction and the interval of each network come from networks of the other families alone: its own
family is left out as a whole. Compiled networks are corrected by compiled ones.

``--networks 9`` takes a sample, ``--compiled 45`` compiles all of them (270 times; without a cache that takes most of
an hour, the default about ten minutes), ``--compiled 0`` none. ``--seconds`` is the time for each measurement. Let
nothing else run meanwhile, and say so if something did.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from predicted_networks import subjects

from profilerkit import DeviceInfo, ModelInputs, RunOptions
from profilerkit.devices import device
from profilerkit.plugging.offers import backend_named
from profilerkit.prediction import Calibration, Network, predict_trace
from profilerkit.prediction.calibration import COMPILED
from profilerkit.prediction.measuring import clock_of
from profilerkit.times.sampling import Sampling, measure

BATCH_SIZES = (1, 4, 16)
PHASES = ("forward", "training", f"forward{COMPILED}", f"training{COMPILED}")


class Row(NamedTuple):
    """One network at one batch size, and both of its times."""

    name: str
    family: str
    phase: str
    batch_size: int
    predicted: float
    bound: float
    measured: float


def rows_of(where: DeviceInfo, count: int, compiled: int, seconds: float) -> Iterable[Row]:
    """Yield every network's times; the prediction is that of the tables alone, without any correction."""
    backend: Any = backend_named("torch")
    plain = replace(where, calibration={**(where.calibration or {}), "networks": []})
    listed = list(subjects())
    to_compile = {subject.name for subject in _sample(listed, compiled)}
    for subject in _sample(listed, count):
        for batch_size in BATCH_SIZES:
            inputs = ModelInputs(subject.inputs(batch_size))
            for phase in PHASES:
                is_compiled = phase.endswith(COMPILED)
                if is_compiled and subject.name not in to_compile:
                    continue
                training = phase.startswith("training")
                trace = (backend.trace_training if training else backend.trace)(subject.model, inputs)
                predicted = predict_trace(trace, plain, compiled=is_compiled)
                options = RunOptions(training=training, compile=is_compiled, num_threads=torch.get_num_threads())
                with backend.run(subject.model, inputs, options) as run:
                    taken = measure(run, Sampling(max_seconds=seconds, clock=clock_of(where, torch.get_num_threads())))
                names = subject.name, subject.family, phase, batch_size
                yield Row(*names, predicted.seconds, predicted.bound.seconds, taken.min)


def _sample(listed: Sequence[Any], count: int) -> Sequence[Any]:
    """Return so many of the networks, of all families alike."""
    return listed[:: max(1, len(listed) // count)][:count] if count else ()


def judged(rows: Sequence[Row], where: DeviceInfo) -> dict[str, dict[str, float]]:
    """Return errors, coverage and width by phase, each family judged by what the others taught."""
    calibration = Calibration.of(where)
    if calibration is None:
        raise SystemExit(f"{where.name} has no calibration: give the file of 'profilerkit calibrate'")
    results = {}
    for phase in PHASES:
        mine = [row for row in rows if row.phase == phase]
        if not mine:
            continue
        errors, plain_errors, covered, widths = [], [], 0, []
        for family in sorted({row.family for row in mine}):
            others = [
                Network(row.name, row.family, phase, row.measured / row.predicted)
                for row in mine
                if row.family != family
            ]
            middle, low, high = replace(calibration, networks=tuple(others)).correction(phase)
            for row in mine:
                if row.family == family:
                    ratio = row.measured / row.predicted
                    errors.append(abs(ratio / middle - 1))
                    plain_errors.append(abs(ratio - 1))
                    covered += low <= ratio <= high
                    widths.append(high / low)
        results[phase] = {
            "networks": len(mine),
            "median error": _quantile(errors, 0.5),
            "nine of ten below": _quantile(errors, 0.9),
            "median error without correction": _quantile(plain_errors, 0.5),
            "covered": covered / len(mine),
            "median ratio of the ends": _quantile(widths, 0.5),
            "bound above measured": sum(row.bound > row.measured for row in mine) / len(mine),
        }
    return results


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.floor(share * len(ordered)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calibration", help="the file of 'profilerkit calibrate'")
    parser.add_argument("--networks", type=int, default=45, help="so many of the 45 networks")
    parser.add_argument("--compiled", type=int, default=9, help="so many of them also compiled")
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds for each measurement")
    parser.add_argument("--threads", type=int, default=1, help="as many as the calibration was made with")
    parser.add_argument("--output", type=Path, help="write every row as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    where = device(arguments.calibration)
    rows = list(rows_of(where, arguments.networks, arguments.compiled, arguments.seconds))
    by_family: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        by_family[row.family, row.phase].append(row.measured / row.predicted)
    print(f"load of the machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    for (family, phase), ratios in sorted(by_family.items()):
        print(f"{family:<20} {phase:<18} measured / predicted: {min(ratios):.2f} to {max(ratios):.2f}")
    calibration = Calibration.of(where)
    if calibration is not None:
        error = math.expm1(calibration.log_error)
        print(f"operators of the calibration, each from the others: median error {error:.3g}")
    results = judged(rows, where)
    for phase, numbers in results.items():
        print(phase)
        for name, number in numbers.items():
            print(f"  {name:<34} {number:.3g}")
    if arguments.output:
        content = {"rows": [row._asdict() for row in rows], "results": results}
        arguments.output.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
