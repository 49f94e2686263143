"""The summary of a page: a card for each value, and lines for metrics that are tables or have no value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
            cards.append(Card(title, visible(present[0].description), tuple(_list_values(result, records, grid, row))))
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


def _list_values(
    result: Report | Comparison, records: Sequence[StatusRecord | None], grid: Grid, row: int
) -> Iterator[Value]:
    """Yield the value of each model, from a row of the grid; without a record the value is not measured.

    The row has the metric, and the value of each model. Behind them are for a report the unit and the completeness, and
    for a comparison how far each later model is better than the first.
    """
    for index, (report, record) in enumerate(zip(result.reports, records, strict=True)):
        name, text = visible(report.name), grid.rows[row][1 + index]
        if record is None:
            yield Value(name, text, state="absent")
            continue
        state, reason, mark = record.completeness.value, _write_reason(record), grid.marks.get((row, 1 + index), "")
        value = Value(name, text, state=state, reason=reason, sign=record.sign, mark=mark)
        if not isinstance(result, Comparison):
            value = _set_unit_apart(value, record, grid.rows[row][2])
        elif index and grid.rows[row][len(records) + index] != "-":
            better = len(records) + index
            value = replace(value, better=grid.rows[row][better], verdict=grid.marks.get((row, better), ""))
        yield value


def _set_unit_apart(value: Value, record: StatusRecord, unit: str) -> Value:
    """Return a value with its unit, and with the interval of a measurement or all digits of a count."""
    measured = record.text_parts
    if measured is None or not isinstance(record.value, Measurement):
        return replace(value, unit=unit, interval=write_in_full(record))
    interval = measured.interval if record.value.is_range else f"{record.value.interval_name} {measured.interval}"
    return replace(value, text=f"{record.sign}{measured.number}", unit=unit, interval=interval)


def _write_reason(record: StatusRecord) -> str:
    """Return the missing parts of a value, or why there is no value, or what makes it an upper bound or an estimate."""
    reason = visible("; ".join(record.missing))
    is_lower_bound = record.completeness is Completeness.PARTIAL and record.sign in (Sign.LOWER, Sign.EXACT)
    return f"Not counted: {reason}" if is_lower_bound else reason
