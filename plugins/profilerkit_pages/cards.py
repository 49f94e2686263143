"""The summary of a page: a card for each value, and lines for metrics that are tables or have no value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import Completeness, is_number
from profilerkit.render.grids import Grid
from profilerkit.render.values import KINDS, write_in_full
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report, StatusRecord
from profilerkit.times.measurement import Measurement
from profilerkit.trace.bounds import Sign
from profilerkit.trace.table import Table

#: The number of cards in view, and the number of further cards that are in view, too, if there are no more of them.
_IN_VIEW, _MORE = 8, 2
#: A text with more characters is no value that a card could show.
_LONGEST = 60


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


@dataclass(frozen=True)
class Card:
    """A metric: its name, its description, and its value for each model."""

    title: str
    description: str
    values: tuple[Value, ...]


class Gap(NamedTuple):
    """Metrics without a value: their names, their state in a word, and why."""

    titles: str
    state: str
    reason: str


@dataclass(frozen=True)
class Summary:
    """All metrics: the cards, the metrics without a value, and the names of metrics that are texts or tables."""

    cards: tuple[Card, ...]
    without: tuple[Gap, ...]
    tables: tuple[str, ...]

    @property
    def in_view(self) -> tuple[Card, ...]:
        """The cards that are always in view."""
        return self.cards if len(self.cards) <= _IN_VIEW + _MORE else self.cards[:_IN_VIEW]

    @property
    def more(self) -> tuple[Card, ...]:
        """The cards behind a line."""
        return self.cards[len(self.in_view) :]


def summarize(result: Report | Comparison, grid: Grid) -> Summary:
    """Return the summary of a report or comparison; ``grid`` has a row for each of its metrics, in their order."""
    cards: list[Card] = []
    gaps: dict[tuple[str, str], list[str]] = {}  # one error fails many metrics
    names = []
    metrics = dict.fromkeys(key for report in result.reports for key in report.statuses)
    for row, key in enumerate(metrics):
        records = [report.statuses.get(key) for report in result.reports]
        present = [record for record in records if record is not None]
        title = grid.rows[row][0]
        if all(record.value is None for record in present):
            gaps.setdefault(_explain_gap(present), []).append(title)
        elif any(isinstance(record.value, Table) and record.value for record in present):
            continue  # the page has a table of it below
        elif any(map(_is_value, present)):
            if isinstance(result, Comparison):
                values = _compare_values(result, records, grid, row)
            else:
                values = [_describe_value(result, record, grid, row) for record in present]
            cards.append(Card(title, visible(present[0].description), tuple(values)))
        else:
            names.append(_name_text(title, records))
    without = tuple(Gap(", ".join(titles), *states_and_reasons) for states_and_reasons, titles in gaps.items())
    return Summary(tuple(cards), without, tuple(names))


def _is_value(record: StatusRecord) -> bool:
    """Return whether a metric is one value: a number, a measurement, or a few words."""
    return is_number(record.value) or (isinstance(record.value, (str, bool)) and _is_short(str(record.value)))


def _is_short(text: str) -> bool:
    return len(text) <= _LONGEST and "\n" not in text


def _explain_gap(records: Sequence[StatusRecord]) -> tuple[str, str]:
    """Return each state and each reason of a metric without a value, once."""
    states = dict.fromkeys(record.completeness.value for record in records)
    reasons = dict.fromkeys(filter(None, map(_write_reason, records)))
    return ", ".join(states), "; ".join(reasons)


def _name_text(title: str, records: Sequence[StatusRecord | None]) -> str:
    """Return the name of a metric that is no value; the name for a single model ends with its text, if it is short."""
    only = records[0] if len(records) == 1 else None
    return title if only is None or not _is_short(only.shown) else f"{title} ({visible(only.shown)})"


# Values of cards ------------------------------------------------------------------------------------------------------


def _describe_value(report: Report, record: StatusRecord, grid: Grid, row: int) -> Value:
    """Return the value of one model, from a row of its grid: the metric, the value, the unit, the completeness."""
    _, text, unit, _ = grid.rows[row]
    value, measured = record.value, record.text_parts
    bare = _make_value(report, record, text, grid.marks.get((row, 1), ""))
    if measured is None or not isinstance(value, Measurement):
        return replace(bare, unit=unit, interval=write_in_full(record))
    interval = measured.interval if value.is_range else f"{value.interval_name} {measured.interval}"
    text = f"{record.sign}{measured.number}"
    return replace(bare, text=text, unit=unit, interval=interval)


def _compare_values(
    comparison: Comparison, records: Sequence[StatusRecord | None], grid: Grid, row: int
) -> list[Value]:
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
    return Value(name, text, state=record.completeness.value, reason=_write_reason(record), sign=record.sign, mark=mark)


def _write_reason(record: StatusRecord) -> str:
    """Return the missing parts of a value, or why there is no value, or what makes it an upper bound or an estimate."""
    reason = visible("; ".join(record.missing))
    is_lower_bound = record.completeness is Completeness.PARTIAL and record.sign in (Sign.LOWER, Sign.EXACT)
    return f"Not counted: {reason}" if is_lower_bound else reason
