"""Throughput and execution time against the batch size, with the knee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.results.entries import short

from .canvas import (
    COLOURS,
    find_end,
    finish,
    legend_above,
    list_reports,
    name_beyond,
    new_figure,
    plain,
    title_axis,
    unit_for,
    why_missing,
)

if TYPE_CHECKING:
    from profilerkit.results.comparison import Comparison
    from profilerkit.results.report import Report

__all__ = ["batch_sweep"]

_Rows = Sequence[Mapping[str, Any]]


def batch_sweep(result: Report | Comparison) -> Any:
    """Return a figure of the throughput and the execution time at each batch size; each model has a line.

    The knee is the smallest batch size with at least 90 % of the best throughput. Error bars show the confidence
    intervals of the median times; one far above all median times leaves the figure, and a text says so.

    Args:
        result: A report or a comparison, with a value of ``batch_sweep``: profile with several batch sizes.

    Raises:
        ValueError: a report has no value of ``batch_sweep``.
        ImportError: matplotlib is missing.
    """
    reports = list_reports(result)
    sweeps = [_require_sweep(report) for report in reports]
    figure = new_figure(7.5, 6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    rates = [row["throughput"] for rows in sweeps for row in rows]
    times = [float(row["execution_time"]) for rows in sweeps for row in rows]
    rate, rate_unit = unit_for(max(rates), "samples/s", Scale.SI)
    second, time_unit = unit_for(max(times), "s", Scale.TIME)
    for index, (report, rows) in enumerate(zip(reports, sweeps, strict=True)):
        colour = COLOURS[index % len(COLOURS)]
        sizes = [row["batch_size"] for row in rows]
        name = plain(report.name, 28)
        upper.plot(sizes, [row["throughput"] / rate for row in rows], "o-", color=colour, label=name)
        measured = [row["execution_time"] for row in rows]
        medians = [float(value) / second for value in measured]
        lower.errorbar(
            sizes, medians, yerr=_measure_bars(measured, second), fmt="o-", color=colour, capsize=3, label=name
        )
        _mark_knee(upper, lower, rows, index, colour)
    ends = [_read_interval(row["execution_time"])[1] for rows in sweeps for row in rows]
    longest = find_end(0, max(times), max(ends))
    beyond = sum(end > longest for end in ends)
    name_beyond(lower, beyond, "interval", str(scale_value(max(ends), "s", Scale.TIME)))
    upper.set_ylabel(title_axis("Throughput", rate_unit))
    lower.set_ylabel(title_axis("Execution time", time_unit))
    _label_sizes(lower, sorted({row["batch_size"] for rows in sweeps for row in rows}))
    for axis in (upper, lower):
        axis.set_ylim(bottom=0)
        axis.margins(y=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    if beyond:
        lower.set_ylim(top=1.05 * longest / second)
    if len(reports) > 1:
        legend_above(upper)
    no_knee = [report.name for report, rows in zip(reports, sweeps, strict=True) if not any(_find_knees(rows))]
    note = f"No knee within these sizes for {', '.join(no_knee)}: more samples at once may bring more throughput still."
    return finish(figure, reports, "batch sizes", [note] if no_knee else [])


def _require_sweep(report: Report) -> _Rows:
    record = report.statuses.get("batch_sweep")
    if record is None or record.value is None:
        how = (
            "give several batch sizes, batch_size=(1, 8, 32)" if record is None else why_missing(report, "batch_sweep")
        )
        raise ValueError(f"the report of {report.name} has no 'batch_sweep': {how}")
    rows: _Rows = record.value
    if not isinstance(rows, (list, tuple)):
        raise ValueError(f"the 'batch_sweep' of {report.name} is {short(rows)}: no rows of batch sizes to draw")
    if not len(rows):
        raise ValueError(f"the 'batch_sweep' of {report.name} has no rows to draw")
    return rows


def _measure_bars(measured: Sequence[Any], factor: float) -> list[list[float]]:
    """Return the distances from the medians to the ends of their intervals; nothing for times without samples."""
    intervals = [_read_interval(value) for value in measured]
    below = [(float(value) - low) / factor for value, (low, _) in zip(measured, intervals, strict=True)]
    above = [(high - float(value)) / factor for value, (_, high) in zip(measured, intervals, strict=True)]
    return [below, above]


def _read_interval(time: Any) -> tuple[float, float]:
    """Return the interval of a time; the time itself where it has no samples."""
    low, high = getattr(time, "interval", (float(time), float(time)))
    return low, high


def _find_knees(rows: _Rows) -> list[Mapping[str, Any]]:
    return [row for row in rows if row.get("is_knee")]


def _mark_knee(upper: Any, lower: Any, rows: _Rows, above: int, colour: str) -> None:
    for row in _find_knees(rows):
        size = row["batch_size"]
        for axis in (upper, lower):
            axis.axvline(size, color=colour, linewidth=1, linestyle=":")
        # The curve passes well above: at the knee there is nine tenths of the highest throughput.
        options = {"xytext": (5, 6 + 13 * above), "textcoords": "offset points", "fontsize": "small"}
        across = upper.get_xaxis_transform()
        upper.annotate(f"knee: batch size {size:,}", (size, 0), xycoords=across, color=colour, **options)


def _label_sizes(axis: Any, sizes: Sequence[int]) -> None:
    from matplotlib.ticker import NullLocator

    axis.set_xscale("log", base=2)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize="small", rotation=45 if len(sizes) > 10 else 0)
    axis.set_xlabel("Batch size")
