"""The samples of a measurement: every one of them, the median with its interval, and percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..measurement import Measurement
from ..quantity import scale_value
from .canvas import COLOURS, finished, new_figure, plain, reports_of, titled, unit_for, why_missing

if TYPE_CHECKING:
    from ..comparison import Comparison
    from ..report import Report, StatusRecord

__all__ = ["latency"]



def latency(
    result: Report | Comparison, metric: str = "execution_time", percentiles: Sequence[float] = (90, 99)
) -> Any:
    """Return the samples of a metric as dots, models of a comparison below one another.

    The thick line is the median, the box its confidence interval, the thin lines are percentiles. Samples far beyond
    the highest percentile lie outside the figure; how many, it says.

    Args:
        result: A report or a comparison.
        metric: A metric whose value is a `Measurement`.
        percentiles: Which ones to draw, each from 0 to 100.

    Raises:
        ValueError: a report has no samples of this metric.
        ImportError: matplotlib is missing.
    """
    reports = reports_of(result)
    records = [_measured(report, metric) for report in reports]
    values = [record.value for record in records]
    end = max(_end(value, percentiles) for value in values)
    factor, unit = unit_for(max(abs(value.median) for value in values), records[0].base_unit, records[0].scale)
    figure = new_figure(9, 1.5 + 1.15 * len(reports))
    axis = figure.subplots()
    start = min(value.min for value in values)
    for place, (record, value) in enumerate(zip(records, values, strict=True)):
        _strip(axis, place, value, factor, percentiles)
        said = _said(record, value, percentiles, end)
        axis.annotate(said, (0.005, place - 0.33), xycoords=("axes fraction", "data"), fontsize="x-small", va="center")
    margin = (end - start or abs(end) or 1.0) * 0.03
    axis.set_xlim((start - margin) / factor, (end + margin) / factor)
    axis.set_ylim(len(reports) - 0.5, -0.5)
    axis.set_yticks(range(len(reports)), [plain(report.name, 28) for report in reports])
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel(titled(plain(records[0].friendly_name), unit))
    axis.spines[["top", "right", "left"]].set_visible(False)
    batches = {report.batch_size for report in reports if report.batch_size is not None}
    notes = [
        "Dots are samples, in the order in which they were taken from top to bottom; thick: median, box: its interval.",
        f"For a batch of {', '.join(map(str, sorted(batches)))}." if batches else "",
    ]
    names = " and ".join(report.name for report in reports)
    return finished(figure, f"{names}: {records[0].friendly_name}", notes)


def _measured(report: Report, metric: str) -> StatusRecord:
    record = report.statuses.get(metric)
    if record is None or not isinstance(record.value, Measurement):
        raise ValueError(f"the report of {report.name} has no samples of {metric!r}: {why_missing(report, metric)}")
    return record


def _end(value: Measurement, percentiles: Sequence[float]) -> float:
    """Return how far the axis goes: over all samples, unless a few of them lie far beyond the others."""
    highest = value.percentile(max((*percentiles, 50)))
    return min(value.max, highest + (highest - value.min))


def _strip(axis: Any, place: int, value: Measurement, factor: float, percentiles: Sequence[float]) -> None:
    colour = COLOURS[place % len(COLOURS)]
    count = len(value.samples)
    samples = [sample / factor for sample in value.samples]
    heights = [place - 0.17 + 0.5 * index / max(count - 1, 1) for index in range(count)]
    axis.scatter(samples, heights, s=9, color=colour, alpha=0.45, linewidths=0, rasterized=count > 2000)
    low, high = (bound / factor for bound in value.interval)
    axis.fill_betweenx([place - 0.2, place + 0.36], low, high, color=colour, alpha=0.25, linewidth=0)
    axis.vlines(value.median / factor, place - 0.2, place + 0.36, color="black", linewidth=2)
    for percent in percentiles:
        axis.vlines(value.percentile(percent) / factor, place - 0.2, place + 0.36, color="black", linewidth=0.8)


def _said(record: StatusRecord, value: Measurement, percentiles: Sequence[float], end: float) -> str:
    def shown(number: float) -> str:
        return str(scale_value(number, record.base_unit, record.scale))

    low, high = value.interval
    parts = [f"median {shown(value.median)} [{shown(low)}, {shown(high)}]"]
    parts += [f"p{percent:g} {shown(value.percentile(percent))}" for percent in percentiles]
    parts.append(f"{len(value.samples)} samples")
    beyond = sum(sample > end for sample in value.samples)
    if beyond:
        parts.append(f"{beyond} beyond the right end, up to {shown(value.max)}")
    return plain("   ".join(parts), 150)
