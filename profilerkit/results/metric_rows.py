"""The metrics of results as flat numbers and as rows, for trackers of experiments and for data frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..piping.outcome import is_number
from ..times.measurement import Measurement

if TYPE_CHECKING:
    from .comparison import Comparison
    from .report import Report, StatusRecord

__all__ = ["compare_rows", "flat_numbers", "metric_rows"]


def flat_numbers(report: Report) -> Iterator[tuple[str, float]]:
    """Yield each number of a report in base units, by a flat name; of a measurement the ends of its interval too."""
    for key, record in report.statuses.items():
        if not is_number(record.value):
            continue
        yield key, _plain(record.value)
        if isinstance(record.value, Measurement):
            low, high = record.value.interval
            yield f"{key}.low", low
            yield f"{key}.high", high


def metric_rows(report: Report) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each metric: its number in base units with the two ends that are known, and what is shown."""
    for record in report.statuses.values():
        low, high = _ends(record)
        yield {
            "key": record.key,
            "name": record.friendly_name,
            "value": _plain(record.value) if is_number(record.value) else None,
            "low": low,
            "high": high,
            "unit": record.base_unit,
            "shown": record.shown,
            "completeness": record.completeness.value,
            "missing": "; ".join(record.missing),
        }


def compare_rows(comparison: Comparison) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each metric: the number of each model by its name, and of each other model its ratio."""
    for key in comparison:
        records = [report.statuses.get(key) for report in comparison.reports]
        first = next(record for record in records if record is not None)
        row: dict[str, Any] = {"key": key, "name": first.friendly_name, "unit": first.base_unit}
        for report, record in zip(comparison.reports, records, strict=True):
            has_number = record is not None and is_number(record.value)
            row[report.name] = _plain(record.value) if record is not None and has_number else None
        for index, report in enumerate(comparison.others):
            both = is_number(comparison.reference.get(key)) and is_number(report.get(key))
            ratio = comparison.ratio(key, index) if both else None
            row[f"ratio of {report.name}"] = None if ratio is None else ratio.value
            row[f"low of {report.name}"] = None if ratio is None else ratio.low
            row[f"high of {report.name}"] = None if ratio is None else ratio.high
        yield row


def _plain(value: Any) -> float:
    return value if type(value) in (int, float) else float(value)


def _ends(record: StatusRecord) -> tuple[float | None, float | None]:
    if isinstance(record.value, Measurement):
        return record.value.interval
    ends = record.ends
    return (None, None) if ends is None else (ends.low, ends.high)
