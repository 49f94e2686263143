"""Grids of measured times: a sweep over batch sizes, every statistic of each measurement, and where it was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..piping.quantity import Scale, format_number, scale_value
from ..times.batch_sweep import BatchSweep
from ..times.measurement import PERCENTILES, Measurement
from .grids import Grid

if TYPE_CHECKING:
    from ..results.report import Report, StatusRecord

__all__ = ["environment_grids", "measurement_grids", "sweep_grids"]


def sweep_grids(reports: Sequence[Report]) -> Iterator[Grid]:
    """Yield a grid for each sweep over batch sizes; the knee is marked."""
    for report in reports:
        for record in report.statuses.values():
            if isinstance(record.value, BatchSweep):
                named = f" of {report.name}" if len(reports) > 1 else ""
                yield _sweep(f"{record.friendly_name}{named}", record.value)


def _sweep(title: str, sweep: BatchSweep) -> Grid:
    rows = []
    for row in sweep:
        memory = row["memory_footprint"]
        rows.append(
            (
                str(row["batch_size"]),
                *_median_and_interval(row["execution_time"]),
                f"{format_number(row['throughput'])} samples/s",
                "-" if memory is None else str(scale_value(memory, "B", Scale.IEC)),
                "knee" if row["is_knee"] else "",
            )
        )
    titles = ("Batch size", "Execution time", "Interval", "Throughput", "Memory", "")
    return Grid(title, titles, tuple(rows), frozenset(range(6)))


def measurement_grids(reports: Sequence[Report]) -> Iterator[Grid]:
    """Yield for each report every statistic of each measured value, one column for each."""
    for report in reports:
        measured = [record for record in report.statuses.values() if isinstance(record.value, Measurement)]
        if measured:
            title = f"Measurements of {report.name}" if len(reports) > 1 else "Measurements"
            columns = [_statistics(record.value, record.base_unit) for record in measured]
            # Measurements of different confidence have intervals of different names, one below the other.
            order = {name: index for column in columns for index, name in enumerate(column)}
            names = sorted(order, key=lambda name: order[name])
            rows = tuple((name, *(column.get(name, "") for column in columns)) for name in names)
            titles = ("", *(record.friendly_name for record in measured))
            yield Grid(title, titles, rows, frozenset(range(1, len(titles))))


def environment_grids(reports: Sequence[Report]) -> Iterable[Grid]:
    """Yield where each report with measured times was made, once where that is the same for all."""
    measured = [report for report in reports if any(map(_is_measured, report.statuses.values()))]
    alike = all(report.environment == measured[0].environment for report in measured)
    for report in measured[:1] if alike else measured:
        if report.environment:
            title = "Environment" if alike else f"Environment of {report.name}"
            yield Grid(title, ("Fact", "Value"), tuple(report.environment.items()), kind="descriptions")


def _is_measured(record: StatusRecord) -> bool:
    return isinstance(record.value, (Measurement, BatchSweep))


def _statistics(value: Measurement, unit: str) -> dict[str, str]:
    scale = Scale.TIME if unit == "s" else Scale.NONE

    def shown(number: float) -> str:
        return str(scale_value(number, unit, scale))

    low, high = value.interval
    return {
        "Median": shown(value.median),
        f"{100 * value.confidence:.4g} % interval": f"{shown(low)} to {shown(high)}",
        "Noise": f"±{value.noise:.1%}",
        "Mean": shown(value.mean),
        "Interquartile range": shown(value.iqr),
        "Smallest": shown(value.min),
        "Largest": shown(value.max),
        **{f"p{percent}": shown(value.percentile(percent)) for percent in PERCENTILES if percent > 50},
        "Samples": f"{len(value.samples)} after {len(value.warmup)} left out",
    }


def _median_and_interval(time: Measurement) -> tuple[str, str]:
    low, high = (str(scale_value(bound, "s", Scale.TIME)) for bound in time.interval)
    return str(scale_value(time.median, "s", Scale.TIME)), f"{low} to {high}"
