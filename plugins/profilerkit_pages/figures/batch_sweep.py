"""Throughput and execution time against the batch size, with the knee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profilerkit.error_text import shown
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report

from .canvas import COLOURS, find_end, finish, legend_above, name_beyond, new_figure, plain, title_axis, unit_for
from .reading import explain_metric, list_reports, why_missing

_Rows = Sequence[Mapping[str, Any]]


def batch_sweep(result: Report | Comparison) -> Any:
    """Return a figure of the throughput and the execution time at each batch size; each model has a line.

    The knee is the smallest batch size with at least 90 % of the best throughput. Error bars show the confidence
    intervals of the median times; an interval far above all median times leaves the figure, and a text says so.

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
    _draw_throughputs(upper, reports, sweeps)
    _draw_times(lower, sweeps)
    _mark_knees(upper, lower, sweeps)
    _label_sizes(lower, sorted({row["batch_size"] for rows in sweeps for row in rows}))
    for axis in (upper, lower):
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
    if len(reports) > 1:
        legend_above(upper)
    return finish(figure, reports, "batch sizes", _write_notes(reports, sweeps))


def _draw_throughputs(axis: Any, reports: Sequence[Report], sweeps: Sequence[_Rows]) -> None:
    largest = max(row["throughput"] for rows in sweeps for row in rows)
    factor, unit = unit_for(largest, "samples/s", Scale.SI)
    for index, (report, rows) in enumerate(zip(reports, sweeps, strict=True)):
        sizes, rates = [row["batch_size"] for row in rows], [row["throughput"] / factor for row in rows]
        axis.plot(sizes, rates, "o-", color=_choose_color(index), label=plain(report.name, 28))
    axis.set_ylabel(title_axis("Throughput", unit))


def _draw_times(axis: Any, sweeps: Sequence[_Rows]) -> None:
    """Draw the median times with their intervals; the axis ends before an interval that is far above all medians."""
    times = [row["execution_time"] for rows in sweeps for row in rows]
    highest, upper_ends = max(map(float, times)), [_read_interval(time)[1] for time in times]
    factor, unit = unit_for(highest, "s", Scale.TIME)
    for index, rows in enumerate(sweeps):
        measured = [row["execution_time"] for row in rows]
        axis.errorbar(
            [row["batch_size"] for row in rows],
            [float(time) / factor for time in measured],
            yerr=_measure_bars(measured, factor),
            fmt="o-",
            color=_choose_color(index),
            capsize=3,
        )
    end = find_end(0, highest, max(upper_ends))
    beyond = sum(upper_end > end for upper_end in upper_ends)
    name_beyond(axis, beyond, "interval", str(scale_value(max(upper_ends), "s", Scale.TIME)))
    if beyond:
        axis.set_ylim(top=1.05 * end / factor)
    axis.set_ylabel(title_axis("Execution time", unit))


def _choose_color(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _require_sweep(report: Report) -> _Rows:
    record = report.statuses.get("batch_sweep")
    if record is None or record.value is None:
        give = "give several batch sizes, batch_size=(1, 8, 32)"
        how = give if record is None else why_missing(report, "batch_sweep")
        raise ValueError(f"the report of {report.name} has no 'batch_sweep': {how}")
    rows: _Rows = record.value
    if not isinstance(rows, (list, tuple)):
        raise ValueError(f"the 'batch_sweep' of {report.name} is {shown(rows)}: no rows of batch sizes to draw")
    if not rows:
        raise ValueError(f"the 'batch_sweep' of {report.name} has no rows to draw")
    return rows


def _measure_bars(measured: Sequence[Any], factor: float) -> list[list[float]]:
    """Return the distances from the medians to the ends of their intervals; nothing for times without samples."""
    intervals = [_read_interval(value) for value in measured]
    below = [(float(value) - low) / factor for value, (low, _) in zip(measured, intervals, strict=True)]
    above = [(high - float(value)) / factor for value, (_, high) in zip(measured, intervals, strict=True)]
    return [below, above]


def _read_interval(time: Any) -> tuple[float, float]:
    """Return the interval of a time; the time itself if it has no samples."""
    low, high = getattr(time, "interval", (float(time), float(time)))
    return low, high


def _find_knees(rows: _Rows) -> list[Mapping[str, Any]]:
    return [row for row in rows if row.get("is_knee")]


def _mark_knees(upper: Any, lower: Any, sweeps: Sequence[_Rows]) -> None:
    """Mark the knee of each model in both halves, and name its batch size, one name above the other."""
    for index, rows in enumerate(sweeps):
        for row in _find_knees(rows):
            size, color = row["batch_size"], _choose_color(index)
            for axis in (upper, lower):
                axis.axvline(size, color=color, linewidth=1, linestyle=":")
            # The curve passes well above: at the knee there is nine tenths of the highest throughput.
            options = {"xytext": (5, 6 + 13 * index), "textcoords": "offset points", "fontsize": "small"}
            across = upper.get_xaxis_transform()
            upper.annotate(f"knee: batch size {size:,}", (size, 0), xycoords=across, color=color, **options)


def _write_notes(reports: Sequence[Report], sweeps: Sequence[_Rows]) -> list[str]:
    names = ", ".join(report.name for report, rows in zip(reports, sweeps, strict=True) if not _find_knees(rows))
    note = f"No knee within these sizes for {names}: more samples at once may bring more throughput still."
    return [*([note] if names else []), *explain_metric(reports, "batch_sweep")]


def _label_sizes(axis: Any, sizes: Sequence[int]) -> None:
    from matplotlib.ticker import NullLocator

    axis.set_xscale("log", base=2)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize="small", rotation=45 if len(sizes) > 10 else 0)
    axis.set_xlabel("Batch size")
