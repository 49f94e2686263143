"""How far predicted times are from measured ones: ``python benchmarks/predicted.py here.toml``.

The file is what ``profilerkit calibrate here.toml --num-threads 1`` wrote on this machine. 45 networks of nine families
are predicted and run, each at three batch sizes, forward and in training steps, eager and, one of each family,
compiled. The correction and the interval of each network come from networks of the other families alone: its own
family is left out as a whole. Compiled networks are corrected by compiled ones.

``--networks 9`` takes a sample, ``--only encoder`` (again and again) some families or networks. ``--compiled 45``
compiles all of them (270 times; without a cache that takes most of an hour, the default about ten minutes),
``--compiled 0`` none. ``--seconds`` is the time for each measurement. Let nothing else run meanwhile, and say so if
something did.

``--output rows.json`` keeps every row. ``--measured rows.json`` takes the measured times from there, and runs nothing:
it says what another calibration or version of profilerkit predicts for the same measurements. ``--page`` prints the
tables of ``docs/devices.rst``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median_high
from typing import Any, NamedTuple

import torch
from predicted_networks import subjects

from profilerkit import DeviceInfo, ModelInputs, RunOptions
from profilerkit.devices import device
from profilerkit.hooks.backends import backend_named
from profilerkit.times.sampling import Sampling, measure
from profilerkit_predict.prediction import Calibration, Network, predict_trace
from profilerkit_predict.prediction.calibration import name_phase
from profilerkit_predict.prediction.measuring import choose_clock

BATCH_SIZES = (1, 4, 16)
#: The phases, and whether the network is compiled: plain ones first.
PASSES = [(phase, compiled) for compiled in (False, True) for phase in ("forward", "training")]


class Row(NamedTuple):
    """One network at one batch size, and both of its times."""

    name: str
    family: str
    phase: str
    batch_size: int
    predicted: float
    bound: float
    measured: float


#: Measured seconds by the name of a network, phase and batch size.
Times = dict[tuple[str, str, int], float]


def list_rows(where: DeviceInfo, options: argparse.Namespace, measured: Times | None) -> Iterable[Row]:
    """Yield every network's times; the prediction is that of the tables alone, without any correction."""
    backend: Any = backend_named("torch")
    plain = replace(where, calibration={**(where.calibration or {}), "networks": []})
    listed = [
        one_subject
        for one_subject in subjects()
        if not options.only or {one_subject.name, one_subject.family} & set(options.only)
    ]
    to_compile = {subject.name for subject in _sample(listed, options.compiled)}
    for subject in _sample(listed, options.networks):
        for batch_size in options.batch_sizes or BATCH_SIZES:
            inputs = ModelInputs(subject.inputs(batch_size))
            for plain_phase, is_compiled in PASSES:
                phase, training = name_phase(plain_phase, is_compiled), plain_phase == "training"
                key = subject.name, phase, batch_size
                if (is_compiled and subject.name not in to_compile) if measured is None else key not in measured:
                    continue
                trace = (backend.trace_training if training else backend.trace)(subject.model, inputs)
                predicted = predict_trace(trace, plain, compiled=is_compiled)
                if measured is None:
                    how = RunOptions(training=training, compile=is_compiled, num_threads=options.threads)
                    taken = _measure_pass(backend, subject.model, inputs, how, where, options)
                else:
                    taken = measured[key]
                names = subject.name, subject.family, phase, batch_size
                yield Row(*names, predicted.seconds, predicted.bound.seconds, taken)


def _measure_pass(
    backend: Any, model: Any, inputs: ModelInputs, how: RunOptions, where: DeviceInfo, options: argparse.Namespace
) -> float:
    """Return the shortest seconds of a pass."""
    with backend.run(model, inputs, how) as run:
        taken = measure(run, Sampling(max_seconds=options.seconds, clock=choose_clock(where, options.threads)))
    return taken.min


def _sample(listed: Sequence[Any], count: int) -> Sequence[Any]:
    """Return so many of the networks, of all families alike."""
    return listed[:: max(1, len(listed) // count)][:count] if count else ()


def judge(rows: Sequence[Row], where: DeviceInfo) -> dict[str, dict[str, float]]:
    """Return errors, coverage and width by phase, each family judged by what the others taught."""
    calibration = _calibration(where)
    results = {}
    for phase in (name_phase(*passed) for passed in PASSES):
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


def operator_errors(where: DeviceInfo) -> dict[str, float]:
    """Return the median errors of the calibration's operators: each from the others, and by peak and bandwidth alone.

    Peak and bandwidth are the best that were measured, as a data sheet would have them.
    """
    calibration = _calibration(where)
    plain, by_tables = [], []
    for table in calibration.tables:
        peak, rate = calibration.peak(table.dtype) or math.inf, where.bandwidth or math.inf
        is_product = len(table.points[0].sizes) > 1
        plain += [abs(point.work / (peak if is_product else rate) / point.seconds - 1) for point in table.points]
        for point in table.points if len(table.points) > 2 else ():
            others = replace(table, points=tuple(other for other in table.points if other is not point))
            by_tables.append(abs(math.log(point.seconds / others.seconds(point.sizes, point.work, math.inf))))
    return {
        "operators": len(plain),
        "by the tables, each from the others": math.expm1(median_high(by_tables)),
        "by peak and bandwidth alone": _quantile(plain, 0.5),
    }


def _calibration(where: DeviceInfo) -> Calibration:
    calibration = Calibration.of(where)
    if calibration is None:
        raise SystemExit(f"{where.name} has no calibration: give the file of 'profilerkit calibrate'")
    return calibration


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


#: The columns of the page: what they are called, of which number, and how it is written.
COLUMNS = (
    ("Rows", "networks", "{:.0f}".format),
    ("Median error", "median error", partial(_percent, digits=1)),
    ("Nine of ten below", "nine of ten below", _percent),
    ("Uncorrected", "median error without correction", partial(_percent, digits=1)),
    ("In the interval", "covered", _percent),
    ("Ratio of its ends", "median ratio of the ends", "{:.2f}".format),
)


def page(operators: dict[str, float], results: dict[str, dict[str, float]]) -> str:
    """Return the tables of the documentation's page, as reStructuredText."""
    lines = [f"- {name}: {_percent(number, 1)}" for name, number in operators.items() if name != "operators"]
    lines = [f"Median errors of {operators['operators']:.0f} operators:", "", *lines, "", ".. list-table::"]
    lines += ["   :header-rows: 1", "", "   * - Phase", *(f"     - {title}" for title, _, _ in COLUMNS)]
    for phase, numbers in results.items():
        cells = [shown(numbers[name]) for _, name, shown in COLUMNS]
        lines += [f"   * - {phase}", *(f"     - {cell}" for cell in cells)]
    return "\n".join(lines)


def parse_options(command: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calibration", help="the file of 'profilerkit calibrate'")
    parser.add_argument("--networks", type=int, default=45, help="so many of the 45 networks")
    parser.add_argument("--only", action="append", help="a family, or a network; repeat it for several")
    parser.add_argument("--batch-sizes", type=int, nargs="*", help="these instead of 1, 4 and 16")
    parser.add_argument("--compiled", type=int, default=9, help="so many of them also compiled")
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds for each measurement")
    parser.add_argument("--threads", type=int, default=1, help="as many as the calibration was made with")
    parser.add_argument("--output", type=Path, help="write every row as JSON")
    parser.add_argument("--measured", type=Path, help="such a file, whose measured times are used instead of runs")
    parser.add_argument("--page", action="store_true", help="print the tables of the documentation")
    return parser.parse_args(command)


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    where = device(options.calibration)
    measured: Times | None = None
    if options.measured:
        kept = json.loads(options.measured.read_text(encoding="utf-8"))["rows"]
        measured = {(row["name"], row["phase"], row["batch_size"]): row["measured"] for row in kept}
    rows = list(list_rows(where, options, measured))
    results, operators = judge(rows, where), operator_errors(where)
    if options.output:
        content = {"rows": [row._asdict() for row in rows], "results": results, "operators": operators}
        options.output.write_text(json.dumps(content, indent=1), encoding="utf-8")
    if options.page:
        print(page(operators, results))
        return
    by_family: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        by_family[row.family, row.phase].append(row.measured / row.predicted)
    print(f"load of the machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    for (family, phase), ratios in sorted(by_family.items()):
        print(f"{family:<20} {phase:<18} measured / predicted: {min(ratios):.2f} to {max(ratios):.2f}")
    for title, numbers in {"operators of the calibration, median errors": operators, **results}.items():
        print(title)
        for name, number in numbers.items():
            print(f"  {name:<36} {number:.3g}")


if __name__ == "__main__":
    main()
