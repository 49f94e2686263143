"""Grids of measured times: a sweep over batch sizes, every statistic of each measurement, and where it was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..piping.quantity import Scale, format_number, scale_value
from ..times.batch_sweep import BatchSweep
from ..times.conditions import Conditions
from ..times.measurement import PERCENTILES, Measurement
from ..times.percentiles import is_supported
from ..times.wording import format_noise
from .grids import Grid, list_records

if TYPE_CHECKING:
    from ..results.report import Report

__all__ = ["environment_facts", "environment_grids", "list_timed", "machine_facts", "measurement_grids", "sweep_grids"]


def sweep_grids(reports: Sequence[Report]) -> Iterator[Grid]:
    """Yield a grid for each sweep over batch sizes; the knee is marked."""
    for report in reports:
        named = f" of {report.name}" if len(reports) > 1 else ""
        for record in list_records(report, BatchSweep):
            yield _draw_sweep(f"{record.friendly_name}{named}", record.value)


def _draw_sweep(title: str, sweep: BatchSweep) -> Grid:
    rows = []
    for row in sweep:
        memory = row["memory_footprint"]
        rows.append(
            (
                f"knee {row['batch_size']}" if row["is_knee"] else str(row["batch_size"]),
                *_write_median(row["execution_time"]),
                f"{format_number(row['throughput'])} samples/s",
                "-" if memory is None else str(scale_value(memory, "B", Scale.IEC)),
            )
        )
    titles = ("Batch size", "Execution time", "Interval", "Throughput", "Memory")
    return Grid(title, titles, tuple(rows), frozenset(range(len(titles))))


def measurement_grids(reports: Sequence[Report]) -> Iterator[Grid]:
    """Yield for each report every statistic of each measured value, one column for each."""
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
    """Yield where each report with measured times was made, once where that is the same for all."""
    measured = list_timed(reports)
    alike = all(report.environment == measured[0].environment for report in measured)
    for report in measured[:1] if alike else measured:
        if report.environment:
            title = "Environment" if alike else f"Environment of {report.name}"
            yield Grid(title, ("Fact", "Value"), tuple(environment_facts(report).items()), kind="descriptions")


def list_timed(reports: Sequence[Report]) -> list[Report]:
    """Return the reports that have measured times."""
    return [report for report in reports if list_records(report, Measurement, BatchSweep)]


def environment_facts(report: Report) -> dict[str, str]:
    """Return where a report was made, with names and units as people read them: "memory", "23.54 GiB"."""
    return dict(map(_write_fact, report.environment.items()))


def _write_fact(fact: tuple[str, str]) -> tuple[str, str]:
    name, value = fact
    if name.endswith("_bytes") and value.isdecimal():
        name, value = name.removesuffix("_bytes"), str(scale_value(int(value), "B", Scale.IEC))
    return name.replace("_", " "), value


def _list_statistics(value: Measurement, unit: str) -> dict[str, str]:
    scale = Scale.TIME if unit == "s" else Scale.NONE

    def show(number: float) -> str:
        return str(scale_value(number, unit, scale))

    low, high = value.interval
    return {
        "Median": show(value.median),
        f"{value.interval_name[:1].upper()}{value.interval_name[1:]}": f"{show(low)} to {show(high)}",
        "Noise": format_noise(value.noise),
        "Mean": show(value.mean),
        **({"Standard deviation": show(value.std)} if len(value.samples) > 1 else {}),
        "Interquartile range": show(value.iqr),
        "Smallest": show(value.min),
        "Largest": show(value.max),
        **{f"p{percent}": show(value.percentile(percent)) for percent in _choose_percentiles(value)},
        "Samples": f"{len(value.samples)} after {len(value.warmup)} left out{_describe_likeness(value)}",
        **machine_facts(value.conditions),
    }


def _choose_percentiles(value: Measurement) -> list[int]:
    """Return the percentiles above the median that so many samples can tell: none of three, p90 of ten."""
    return [percent for percent in PERCENTILES if percent > 50 and is_supported(percent, len(value.samples))]


def _describe_likeness(value: Measurement) -> str:
    fewer = value.effective_samples < len(value.samples)
    return f"; neighbors are alike: they say as much as {value.effective_samples:.1f}" if fewer else ""


def machine_facts(machine: Conditions | None) -> dict[str, str]:
    """Return what the machine did during a measurement; what could not be read is left out."""
    if machine is None:
        return {}
    seconds, processor = (
        str(scale_value(item, "s", Scale.TIME)) for item in (machine.wall_seconds, machine.cpu_seconds)
    )
    facts = {
        "Processor time": f"{processor} in {seconds}",
        "Interruptions": machine.involuntary_switches,
        "Threads of the process": machine.threads,
        "Frequency governor": machine.governor,
    }
    if machine.load_before is not None and machine.load_after is not None:
        cores = f" on {machine.cores} cores" if machine.cores else ""
        facts["Load of the machine"] = f"{machine.load_before:.1f} before, {machine.load_after:.1f} after{cores}"
    return {name: str(fact) for name, fact in facts.items() if fact is not None}


def _write_median(time: Measurement) -> tuple[str, str]:
    low, high = (str(scale_value(bound, "s", Scale.TIME)) for bound in time.interval)
    named = f" ({time.interval_name})" if time.is_range else ""
    return str(scale_value(time.median, "s", Scale.TIME)), f"{low} to {high}{named}"
