"""Console tables of measured times: a sweep over batch sizes, and every statistic of each measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..batch_sweep import BatchSweep
from ..measurement import PERCENTILES, Measurement
from ..quantity import Scale, format_number, scale_value

if TYPE_CHECKING:
    from ..report import Report, StatusRecord

__all__ = ["environment_tables", "measurement_table", "sweep_tables"]


def sweep_tables(reports: Sequence[Report]) -> Iterable[RenderableType]:
    """Yield a table for each sweep over batch sizes; the knee is marked."""
    for report in reports:
        for record in report.statuses.values():
            if isinstance(record.value, BatchSweep):
                named = f" of {report.name}" if len(reports) > 1 else ""
                yield _sweep_table(f"{record.friendly_name}{named}", record.value)


def _sweep_table(title: str, sweep: BatchSweep) -> RenderableType:
    table = _table(title, ("Batch size", "Execution time", "Interval", "Throughput", "Memory", ""))
    for row in sweep:
        time = row["execution_time"]
        memory = row["memory_footprint"]
        table.add_row(
            str(row["batch_size"]),
            *_median_and_interval(time),
            f"{format_number(row['throughput'])} samples/s",
            "-" if memory is None else str(scale_value(memory, "B", Scale.IEC)),
            "knee" if row["is_knee"] else "",
        )
    return table


def measurement_table(records: Iterable[StatusRecord], name: str = "") -> RenderableType | None:
    """Return every statistic of each measured time, one column for each; None where nothing was measured."""
    measured = [record for record in records if isinstance(record.value, Measurement)]
    if not measured:
        return None
    table = _table(f"Measurements of {name}" if name else "Measurements", ("", *(r.friendly_name for r in measured)))
    table.columns[0].justify = "left"
    columns = [_statistics(record.value, record.base_unit) for record in measured]
    for statistic in columns[0]:
        table.add_row(statistic, *(escape(column[statistic]) for column in columns))
    return table


def environment_tables(reports: Sequence[Report]) -> Iterable[RenderableType]:
    """Yield where each report with measured times was made, once where that is the same for all."""
    measured = [report for report in reports if any(map(_is_measured, report.statuses.values()))]
    alike = all(report.environment == measured[0].environment for report in measured)
    for report in measured[:1] if alike else measured:
        if report.environment:
            title = Text("\nEnvironment" if alike else f"\nEnvironment of {report.name}", style="bold")
            grid = Table(box=None, show_header=False, pad_edge=False, title=title, title_justify="left")
            for name, value in report.environment.items():
                grid.add_row(escape(name), escape(value))
            yield grid


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


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(title=Text(f"\n{title}", style="bold"), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in columns:
        table.add_column(escape(name), justify="right", no_wrap=True)
    return table
