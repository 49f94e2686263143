"""The summary of a page: a card for each value, and lines for metrics that are tables or have no value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profilerkit.piping.outcome import Completeness, is_number
from profilerkit.render.bounds import KINDS, write_in_full
from profilerkit.render.grids import Grid, visible
from profilerkit.times.measurement import Measurement
from profilerkit.trace.table import Table

if TYPE_CHECKING:
    from profilerkit.results.comparison import Comparison
    from profilerkit.results.report import Report, StatusRecord

__all__ = ["Card", "Summary", "Value", "summarize", "summarize_several"]

#: How many bars the small distribution on a card has, and how high they are in its own units.
_BARS, _BAR_HEIGHT = 32, 20
#: Fewer samples have no shape to show.
_FEWEST_FOR_BARS = 12
#: The cards that are in view; the others are behind one line, unless they are as few as that line is worth.
_IN_VIEW, _MORE = 8, 2
#: A text with more characters is no value that a card could show.
_LONGEST = 60


@dataclass(frozen=True)
class Value:
    """A value on a card: its model, text, unit, interval and completeness, and what is missing.

    A count has all its digits where a measurement has its interval. ``better`` says how far it is better than the
    reference's, ``bars`` are the heights of a small histogram of its samples. ``mark`` is the mark of its cell in the
    grid, ``verdict`` that of ``better``.
    """

    model: str
    text: str
    unit: str = ""
    interval: str = ""
    state: str = "complete"
    reason: str = ""
    better: str = ""
    bars: tuple[float, ...] = ()
    sign: str = ""
    mark: str = ""
    verdict: str = ""

    @property
    def badge(self) -> str:
        """What a reader should see at once; empty for a value that is complete and known well."""
        if self.state == "partial":
            return KINDS[self.sign]
        if self.state in ("complete", "absent"):
            return "noisy" if self.mark == "noisy" else ""
        return self.state if self.state != self.text else ""


@dataclass(frozen=True)
class Card:
    """A metric: its name, what it is, and its value for each model."""

    title: str
    description: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Summary:
    """All metrics: the cards, and in lines those without a value (names, state, reason) and those that are tables."""

    cards: tuple[Card, ...]
    without: tuple[tuple[str, str, str], ...]
    tables: tuple[str, ...]

    @property
    def in_view(self) -> tuple[Card, ...]:
        """The cards that are always in view."""
        return self.cards if len(self.cards) <= _IN_VIEW + _MORE else self.cards[:_IN_VIEW]

    @property
    def more(self) -> tuple[Card, ...]:
        """The cards behind a line."""
        return self.cards[len(self.in_view) :]


def summarize(report: Report, grid: Grid) -> Summary:
    """Return the summary of a report; ``grid`` has a row for each of its metrics.

    Metrics of one value and unit, such as all parameters and the trainable ones, share a card.
    """
    cards: dict[object, Card] = {}
    without, tables = [], []
    for number, (record, cells) in enumerate(zip(report.statuses.values(), grid.rows, strict=True)):
        title, text, unit, state = cells
        if record.value is None:
            without.append((title, state, _write_reason(record)))
        elif isinstance(record.value, Table):  # it is below, as a table
            continue
        elif not _is_value(record):
            tables.append(f"{title} ({visible(record.shown)})" if _is_short(record.shown) else title)
        else:
            value = _describe_value(report, record, text, unit, grid.marks.get((number, 1), ""))
            _add(cards, Card(title, visible(record.description), (value,)), [record], (unit, text))
    return Summary(tuple(cards.values()), _join_alike(without), tuple(tables))


def _join_alike(without: Iterable[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    """Return each state and reason once, with the names of all metrics that have it: one error fails many metrics."""
    titles: dict[tuple[str, str], list[str]] = {}
    for title, state, reason in without:
        titles.setdefault((state, reason), []).append(title)
    return tuple((", ".join(names), state, reason) for (state, reason), names in titles.items())


def _add(cards: dict[object, Card], card: Card, records: Sequence[StatusRecord | None], alike: object) -> None:
    """Add a card; one that shows just what another one does, of complete numbers, is joined with that."""
    counts = [
        record is not None
        and record.completeness is Completeness.COMPLETE
        and bool(record.value)
        and not isinstance(record.value, Measurement)
        for record in records
    ]
    key = (alike, tuple(record.base_unit for record in records if record)) if all(counts) else len(cards)
    one = cards.get(key)
    if one is None:
        cards[key] = card
    else:
        descriptions = " ".join(f"{part.title}: {part.description}" for part in (one, card))
        cards[key] = Card(f"{one.title}, {card.title}", descriptions, one.values)


def summarize_several(comparison: Comparison, grid: Grid) -> Summary:
    """Return the summary of a comparison: on each card the values of all models, and which of them is better."""
    cards: dict[object, Card] = {}
    without, tables = [], []
    for number, (key, (title, *_others)) in enumerate(zip(comparison, grid.rows, strict=True)):
        records = [report.statuses.get(key) for report in comparison.reports]
        present = [record for record in records if record is not None]
        if all(record.value is None for record in present):
            reasons = dict.fromkeys(filter(None, map(_write_reason, present)))
            states = dict.fromkeys(record.completeness.value for record in present)
            without.append((title, ", ".join(states), "; ".join(reasons)))
        elif any(isinstance(record.value, Table) for record in present):
            continue
        elif not any(map(_is_value, present)):
            tables.append(title)
        else:
            values = tuple(
                _compare_value(comparison, grid, number, index, record) for index, record in enumerate(records)
            )
            _add(cards, Card(title, visible(present[0].description), values), records, values)
    return Summary(tuple(cards.values()), _join_alike(without), tuple(tables))


def _compare_value(comparison: Comparison, grid: Grid, number: int, index: int, record: StatusRecord | None) -> Value:
    """Return the value of the model at an index, from the row of that number."""
    cells = grid.rows[number][1:]
    column = len(comparison.reports) + index - 1
    name, text = visible(comparison.reports[index].name), cells[index]
    better = cells[column] if index and cells[column] != "-" else ""
    verdict = grid.marks.get((number, column + 1), "") if index else ""
    mark = grid.marks.get((number, index + 1), "")
    if record is None:
        return Value(name, text, state="absent")
    state, reason = record.completeness.value, _write_reason(record)
    return Value(name, text, state=state, reason=reason, better=better, sign=record.sign, mark=mark, verdict=verdict)


def _describe_value(report: Report, record: StatusRecord, text: str, unit: str, mark: str) -> Value:
    """Return the value of one model, whose cell has the text; the noise and the interval of a measurement leave it."""
    bars: tuple[float, ...] = ()
    interval = write_in_full(record)
    if isinstance(record.value, Measurement):
        bars = _count_bars(record.value.samples)
        number, _, ends = text.partition(" [")
        if ends:
            text = number.partition(" ±")[0]
            interval = f"[{ends}" if record.value.is_range else f"{record.value.interval_name} [{ends}"
    state, reason, sign = record.completeness.value, _write_reason(record), record.sign
    return Value(visible(report.name), text, unit, interval, state, reason, bars=bars, sign=sign, mark=mark)


def _is_value(record: StatusRecord) -> bool:
    """Say whether a metric is one value: a number, a measurement, or a few words."""
    return is_number(record.value) or (isinstance(record.value, (str, bool)) and _is_short(str(record.value)))


def _is_short(text: str) -> bool:
    return len(text) <= _LONGEST and "\n" not in text


def _write_reason(record: StatusRecord) -> str:
    return visible("; ".join(record.missing))


def _count_bars(samples: Sequence[float]) -> tuple[float, ...]:
    """Return the heights of a small histogram of the samples; none where they do not differ."""
    finite = [sample for sample in samples if math.isfinite(sample)]
    if len(finite) < _FEWEST_FOR_BARS or min(finite) == max(finite) or not math.isfinite(max(finite) - min(finite)):
        return ()
    low, width = min(finite), (max(finite) - min(finite)) / _BARS
    counts = [0] * _BARS
    for sample in finite:
        counts[min(int((sample - low) / width) if width else 0, _BARS - 1)] += 1
    return tuple(round(_BAR_HEIGHT * count / max(counts), 2) for count in counts)
