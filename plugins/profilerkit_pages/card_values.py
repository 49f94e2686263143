"""The value of a metric on a card: its text, its unit and interval, the missing parts, and a small histogram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from profilerkit.foreign_text import visible
from profilerkit.render.grids import Grid
from profilerkit.render.values import KINDS, write_in_full
from profilerkit.times.measurement import Measurement
from profilerkit.trace.bounds import Sign

if TYPE_CHECKING:
    from profilerkit.results.comparison import Comparison
    from profilerkit.results.report import Report, StatusRecord

#: The number of bars of the small histogram on a card, and their greatest height in its units.
_BARS, _BAR_HEIGHT = 32, 20
#: Fewer samples have no shape to show.
_FEWEST_FOR_BARS = 12


@dataclass(frozen=True)
class Value:
    """A value on a card.

    Attributes:
        model: The name of the model.
        text: The value as text; its unit and its interval stand apart.
        unit: The unit of the text.
        interval: The interval of a measurement; of a count that is rounded, all its digits.
        state: The completeness: "complete", "partial", "unavailable", "failed"; "absent" if nobody measured the metric.
        reason: The missing parts of the value, or why there is no value.
        better: How far the value is better than the value of the reference.
        bars: The heights of a small histogram of the samples.
        sign: Which end of the truth the value is.
        mark: The mark of the value's cell in the grid.
        verdict: The mark of ``better``.
    """

    model: str
    text: str
    unit: str = ""
    interval: str = ""
    state: str = "complete"
    reason: str = ""
    better: str = ""
    bars: tuple[float, ...] = ()
    sign: Sign = Sign.EXACT
    mark: str = ""
    verdict: str = ""

    @property
    def badge(self) -> str:
        """The warning that a reader should see at once; empty for a complete value without much noise."""
        if self.state == "partial":
            return KINDS[self.sign]
        if self.state in ("complete", "absent"):
            return "noisy" if self.mark == "noisy" else ""
        return self.state if self.state != self.text else ""


def describe_value(report: Report, record: StatusRecord, grid: Grid, row: int) -> Value:
    """Return the value of one model, from a row of its grid: the metric, the value, the unit, the completeness."""
    _, text, unit, _ = grid.rows[row]
    value, measured = record.value, record.text_parts
    bare = _make_value(report, record, text, grid.marks.get((row, 1), ""))
    if measured is None or not isinstance(value, Measurement):
        return replace(bare, unit=unit, interval=write_in_full(record))
    interval = measured.interval if value.is_range else f"{value.interval_name} {measured.interval}"
    text = f"{record.sign}{measured.number}"
    return replace(bare, text=text, unit=unit, interval=interval, bars=_draw_bars(value.samples))


def compare_values(comparison: Comparison, records: Sequence[StatusRecord | None], grid: Grid, row: int) -> list[Value]:
    """Return the values of all models, from a row of the comparison's grid.

    The row has the metric, the value of each model, and for each later model how far it is better than the first.
    """
    values = []
    for index, (report, record) in enumerate(zip(comparison.reports, records, strict=True)):
        column, column_of_better = 1 + index, len(records) + index
        value = _make_value(report, record, grid.rows[row][column], grid.marks.get((row, column), ""))
        is_compared = record is not None and index > 0 and grid.rows[row][column_of_better] != "-"
        if is_compared:
            better, verdict = grid.rows[row][column_of_better], grid.marks.get((row, column_of_better), "")
            value = replace(value, better=better, verdict=verdict)
        values.append(value)
    return values


def _make_value(report: Report, record: StatusRecord | None, text: str, mark: str) -> Value:
    """Return a value in the form of every page; without a record the value is not measured."""
    name = visible(report.name)
    if record is None:
        return Value(name, text, state="absent")
    return Value(name, text, state=record.completeness.value, reason=write_reason(record), sign=record.sign, mark=mark)


def write_reason(record: StatusRecord) -> str:
    """Return the missing parts of a value, or why there is no value."""
    return visible("; ".join(record.missing))


def _draw_bars(samples: Sequence[float]) -> tuple[float, ...]:
    """Return the heights of a small histogram of the samples; none if they do not differ."""
    finite = [sample for sample in samples if math.isfinite(sample)]
    if len(finite) < _FEWEST_FOR_BARS:
        return ()
    low, span = min(finite), max(finite) - min(finite)
    width = span / _BARS
    if not width or not math.isfinite(width):
        return ()
    counts = [0] * _BARS
    for sample in finite:
        counts[min(int((sample - low) / width), _BARS - 1)] += 1
    return tuple(round(_BAR_HEIGHT * count / max(counts), 2) for count in counts)
