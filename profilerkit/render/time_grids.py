"""Grids of measured times: a sweep over batch sizes, every statistic of each measurement, and where it was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from ..piping.quantity import Scale, format_bytes, format_number, scale_value
from ..results.report import Report
from ..times.batch_sweep import COLUMNS, BatchSweep
from ..times.conditions import Conditions
from ..times.measurement import Measurement
from ..times.percentiles import PERCENTILES, is_supported
from ..times.wording import format_noise
from .grids import Grid, list_records

__all__ = ["environment_facts", "environment_grids", "list_timed", "machine_facts", "measurement_grids", "sweep_grids"]


def sweep_grids(reports: Sequence[Report]) -> Iterator[Grid]:
    """Yield a grid for each sweep over batch sizes; the knee is marked."""
    for report in reports:
        name = f" of {report.name}" if len(reports) > 1 else ""
        for record in list_records(report, BatchSweep):
            yield _draw_sweep(f"{record.friendly_name}{name}", record.value)


def _draw_sweep(title: str, sweep: BatchSweep) -> Grid:
    titles = ("Batch size", "Execution time", "Interval", "Throughput", "Memory")
    rows = (
        (
            f"knee {size}" if is_knee else str(size),
            _write_seconds(time.median),
            _write_interval(time),
            f"{format_number(throughput)} samples/s",
            "-" if memory is None else format_bytes(memory),
        )
        for size, time, throughput, memory, is_knee in map(itemgetter(*COLUMNS), sweep)
    )
    return Grid(title, titles, tuple(rows), frozenset(range(len(titles))))


def measurement_grids(reports: Sequence[Report]) -> Iterator[Grid]:
    """Yield a grid for each report with measured values: a column for each of them, a row for each statistic."""
    for report in reports:
        measured = list_records(report, Measurement)
        if measured:
            title = f"Measurements of {report.name}" if len(reports) > 1 else "Measurements"
            columns = [_list_statistics(record.value, record.base_unit) for record in measured]
            # Intervals of different confidence, and ranges, have different names, one below the other.
            order = {name: index for column in columns for index, name in enumerate(column)}
            names = sorted(order, key=lambda name: order[name])
            rows = tuple((name, *(column.get(name, "") for column in columns)) for name in names)
            titles = ("", *(record.friendly_name for record in measured))
            yield Grid(title, titles, rows, frozenset(range(1, len(titles))))


def environment_grids(reports: Sequence[Report]) -> Iterable[Grid]:
    """Yield where each report with measured times was made, or one grid if all were made in one place."""
    timed = list_timed(reports)
    are_alike = all(report.environment == timed[0].environment for report in timed)
    for report in timed[:1] if are_alike else timed:
        if report.environment:
            title = "Environment" if are_alike else f"Environment of {report.name}"
            yield Grid(title, ("Fact", "Value"), tuple(environment_facts(report).items()), kind="descriptions")


def list_timed(reports: Sequence[Report]) -> list[Report]:
    """Return the reports that have measured times."""
    return [report for report in reports if list_records(report, Measurement, BatchSweep)]


def environment_facts(report: Report) -> dict[str, str]:
    """Return where a report was made, with names and units as people read them: "memory", "23.54 GiB"."""
    facts: dict[str, str] = {}
    for name, value in report.environment.items():
        if name.endswith("_bytes") and value.isdecimal():
            name, value = name.removesuffix("_bytes"), format_bytes(int(value))
        facts[name.replace("_", " ")] = value
    return facts


def _list_statistics(value: Measurement, unit: str) -> dict[str, str]:
    """Return the statistics of a measured value, and the conditions of the machine meanwhile, by their names."""
    scale = Scale.TIME if unit == "s" else Scale.NONE

    def show(number: float) -> str:
        return str(scale_value(number, unit, scale))

    low, high = value.interval
    # The percentiles above the median that so many samples can tell: none of three, p90 of ten.
    percentiles = [percent for percent in PERCENTILES if percent > 50 and is_supported(percent, len(value.samples))]
    return {
        "Median": show(value.median),
        f"{value.interval_name[:1].upper()}{value.interval_name[1:]}": f"{show(low)} to {show(high)}",
        "Noise": format_noise(value.noise),
        "Mean": show(value.mean),
        **({"Standard deviation": show(value.std)} if len(value.samples) > 1 else {}),
        "Interquartile range": show(value.iqr),
        "Smallest": show(value.min),
        "Largest": show(value.max),
        **{f"p{percent}": show(value.percentile(percent)) for percent in percentiles},
        "Samples": f"{len(value.samples)} after {len(value.warmup)} left out{_describe_likeness(value)}",
        **machine_facts(value.conditions),
    }


def _describe_likeness(value: Measurement) -> str:
    """Return how many independent samples tell as much as all of these, if neighboring ones are alike."""
    if value.effective_samples >= len(value.samples):
        return ""
    return f"; neighbors are alike: they say as much as {value.effective_samples:.1f}"


def machine_facts(machine: Conditions | None) -> dict[str, str]:
    """Return the facts about the machine during a measurement; unknown facts are left out."""
    if machine is None:
        return {}
    facts = {
        "Processor time": f"{_write_seconds(machine.cpu_seconds)} in {_write_seconds(machine.wall_seconds)}",
        "Interruptions": machine.involuntary_switches,
        "Threads of the process": machine.threads,
        "Frequency governor": machine.governor,
    }
    if machine.load_before is not None and machine.load_after is not None:
        cores = f" on {machine.cores} cores" if machine.cores else ""
        facts["Load of the machine"] = f"{machine.load_before:.1f} before, {machine.load_after:.1f} after{cores}"
    return {name: str(fact) for name, fact in facts.items() if fact is not None}


def _write_interval(time: Measurement) -> str:
    """Return the two ends of a time; if it is a range, with the name of the range."""
    low, high = map(_write_seconds, time.interval)
    return f"{low} to {high} ({time.interval_name})" if time.is_range else f"{low} to {high}"


def _write_seconds(seconds: float) -> str:
    return str(scale_value(seconds, "s", Scale.TIME))
