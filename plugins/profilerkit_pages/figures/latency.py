"""The samples of a measurement: each sample, the median with its interval, and percentiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from profilerkit.arguments.checks import Check, between, several, text
from profilerkit.count_text import format_count
from profilerkit.piping.quantity import scale_value
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report, StatusRecord
from profilerkit.times.measurement import Measurement
from profilerkit.times.percentiles import is_supported, samples_needed

from .canvas import COLOURS, find_end, finish, name_beyond, new_figure, plain, title_axis, unit_for
from .reading import explain_metric, list_reports, why_missing

_PERCENT = between(0, 100, "a number from 0 to 100")
_PERCENTILES = Check(
    "numbers from 0 to 100: percentiles=(90, 99)", lambda value: tuple(map(_PERCENT.read, several(value)))
)


def latency(
    result: Report | Comparison, metric: str = "execution_time", percentiles: Sequence[float] = (90, 99)
) -> Any:
    """Return a figure of the samples of a metric as dots, with the models of a comparison one below the other.

    The thick line is the median, the box its confidence interval (or the range, if there are too few samples for an
    interval), and the thin lines are percentiles. A percentile is drawn if at least one sample is expected beyond it:
    the 99th needs a hundred samples. Samples far above the highest percentile are outside the figure, and a text at
    its right end says how many.

    Args:
        result: A report or a comparison.
        metric: The key of a metric whose value is a `Measurement`.
        percentiles: The percentiles to draw, each from 0 to 100.

    Raises:
        ValueError: a report has no samples of this metric.
        ImportError: matplotlib is missing.
    """
    metric = text("the name of a metric, such as 'throughput'")("metric", metric)
    percentiles = _PERCENTILES("percentiles", percentiles)
    reports = list_reports(result)
    records = [_require_samples(report, metric) for report in reports]
    values: list[Measurement] = [record.value for record in records]
    fewest = min(len(value.samples) for value in values)
    drawn = [percent for percent in percentiles if is_supported(percent, fewest)]
    start, end = _choose_range(values, drawn)
    first = records[0]
    factor, unit = unit_for(max(abs(value.median) for value in values), first.base_unit, first.scale)
    figure = new_figure(9, 1.3 + 1.2 * len(reports))
    axes = figure.subplots(len(reports), 1, squeeze=False, sharex=True)[:, 0]
    for index, (axis, report, record) in enumerate(zip(axes, reports, records, strict=True)):
        _draw_samples(axis, record.value, factor, drawn, COLOURS[index % len(COLOURS)])
        _write_texts(axis, record, drawn, end)
        _set_range(axis, start / factor, end / factor)
        axis.set_yticks([0.5], [plain(report.name, 28)])
    axes[-1].set_xlabel(title_axis(plain(first.friendly_name), unit))
    notes = [
        _explain_marks(drawn),
        _describe_left_out([percent for percent in percentiles if percent not in drawn], fewest),
        *explain_metric(reports, metric),
    ]
    return finish(figure, reports, f"{first.friendly_name}{_name_batch(reports)}", notes)


def _explain_marks(percentiles: Sequence[float]) -> str:
    text = "Dots: samples, as they were taken from top to bottom. Box: the interval of the median, the thick line."
    names = ", ".join(f"p{percent:g}" for percent in percentiles)
    return f"{text} Thin lines: {names}." if names else text


def _describe_left_out(percentiles: Sequence[float], samples: int) -> str:
    needed = ", ".join(f"p{percent:g} needs {samples_needed(percent)}" for percent in percentiles)
    return f"Percentiles left out, of {format_count(samples, 'sample')}: {needed}." if needed else ""


def _name_batch(reports: Sequence[Report]) -> str:
    sizes = {report.batch_size for report in reports}
    return f" of a batch of {sizes.pop()}" if len(sizes) == 1 and None not in sizes else ""


def _require_samples(report: Report, metric: str) -> StatusRecord:
    record = report.statuses.get(metric)
    if record is None or not isinstance(record.value, Measurement):
        raise ValueError(f"the report of {report.name} has no samples of {metric!r}: {why_missing(report, metric)}")
    if not all(map(math.isfinite, record.value.samples)):
        raise ValueError(
            f"the samples of {metric!r} of {report.name} are not all finite: there is no axis to draw them on"
        )
    return record


def _choose_range(values: Sequence[Measurement], percentiles: Sequence[float]) -> tuple[float, float]:
    """Return the start and the end of the axis: all samples are on it, but a few that are far from the others."""
    highest = max((*percentiles, 50))
    ends = [find_end(value.min, value.percentile(highest), value.max) for value in values]
    return min(value.min for value in values), max(ends)


def _set_range(axis: Any, start: float, end: float) -> None:
    """Set the ends of an axis, with a margin, and remove the lines on its other sides."""
    length = end - start or abs(end) or 1.0  # equal samples have no length of their own
    margin = 0.03 * length
    axis.set_xlim(start - margin, end + margin)
    axis.set_ylim(1.08, -0.08)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)


def _draw_samples(axis: Any, value: Measurement, factor: float, percentiles: Sequence[float], colour: str) -> None:
    """Draw the samples of a model from top to bottom, and lines of their statistics; ``factor`` is one unit."""
    count = len(value.samples)
    samples = [sample / factor for sample in value.samples]
    heights = [index / max(count - 1, 1) for index in range(count)]
    axis.scatter(samples, heights, s=14, color=colour, alpha=0.55, linewidths=0, rasterized=count > 2000)
    low, high = (bound / factor for bound in value.interval)
    axis.axvspan(low, high, color=colour, alpha=0.22, linewidth=0)
    axis.axvline(value.median / factor, color="black", linewidth=1.8)
    for percent in percentiles:
        axis.axvline(value.percentile(percent) / factor, color="black", linewidth=0.7)


def _write_texts(axis: Any, record: StatusRecord, percentiles: Sequence[float], end: float) -> None:
    """Write the statistics of a model above its axis, and at its right end how many samples lie beyond ``end``."""
    value: Measurement = record.value

    def show(number: float) -> str:
        return str(scale_value(number, record.base_unit, record.scale))

    low, high = map(show, value.interval)
    parts = [
        f"median {show(value.median)} [{f'{low} to {high}' if value.is_range else f'{low}, {high}'}]",
        *(f"p{percent:g} {show(value.percentile(percent))}" for percent in percentiles),
        format_count(len(value.samples), "sample"),
    ]
    axis.set_title(plain("   ".join(parts), 150), fontsize="small", loc="left")
    name_beyond(axis, sum(sample > end for sample in value.samples), "sample", show(value.max))
