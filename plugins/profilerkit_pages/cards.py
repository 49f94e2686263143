"""The summary of a page: a card for each value, and lines for metrics that are tables or have no value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import Completeness, is_number
from profilerkit.render.grids import Grid
from profilerkit.times.measurement import Measurement
from profilerkit.trace.table import Table

from .card_values import Value, compare_values, describe_value, write_reason

if TYPE_CHECKING:
    from profilerkit.results.comparison import Comparison
    from profilerkit.results.report import Report, StatusRecord

#: The number of cards in view, and the number of further cards that are in view, too, if there are no more of them.
_IN_VIEW, _MORE = 8, 2
#: A text with more characters is no value that a card could show.
_LONGEST = 60


@dataclass(frozen=True)
class Card:
    """A metric: its name, its description, and its value for each model."""

    title: str
    description: str
    values: tuple[Value, ...]

    def join(self, other: Card) -> Card:
        """Return one card for two metrics that have the same values."""
        descriptions = " ".join(f"{card.title}: {card.description}" for card in (self, other))
        return Card(f"{self.title}, {other.title}", descriptions, self.values)


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
    """Return the summary of a report or comparison; ``grid`` has a row for each of its metrics, in their order.

    Metrics of one value and unit, such as all parameters and trainable parameters, share a card.
    """
    cards: dict[object, Card] = {}
    gaps, names = [], []
    metrics = dict.fromkeys(key for report in result.reports for key in report.statuses)
    for row, key in enumerate(metrics):
        records = [report.statuses.get(key) for report in result.reports]
        present = [record for record in records if record is not None]
        title = grid.rows[row][0]
        if all(record.value is None for record in present):
            gaps.append(_describe_gap(title, present))
        elif any(isinstance(record.value, Table) and record.value for record in present):
            continue  # the page has a table of it below
        elif any(map(_is_value, present)):
            card = Card(title, visible(present[0].description), _list_values(result, records, grid, row))
            shared = _identify(records) or key
            cards[shared] = cards[shared].join(card) if shared in cards else card
        else:
            names.append(_name_text(title, records))
    return Summary(tuple(cards.values()), _join_alike(gaps), tuple(names))


def _is_value(record: StatusRecord) -> bool:
    """Return whether a metric is one value: a number, a measurement, or a few words."""
    return is_number(record.value) or (isinstance(record.value, (str, bool)) and _is_short(str(record.value)))


def _is_short(text: str) -> bool:
    return len(text) <= _LONGEST and "\n" not in text


def _describe_gap(title: str, records: Sequence[StatusRecord]) -> Gap:
    """Return the line on a metric without a value: each state and each reason once."""
    states = dict.fromkeys(record.completeness.value for record in records)
    reasons = dict.fromkeys(filter(None, map(write_reason, records)))
    return Gap(title, ", ".join(states), "; ".join(reasons))


def _join_alike(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Return each state and reason once, with the names of all metrics that have it: one error fails many metrics."""
    titles: dict[tuple[str, str], list[str]] = {}
    for gap in gaps:
        titles.setdefault((gap.state, gap.reason), []).append(gap.titles)
    return tuple(Gap(", ".join(names), state, reason) for (state, reason), names in titles.items())


def _name_text(title: str, records: Sequence[StatusRecord | None]) -> str:
    """Return the name of a metric that is no value; the name for a single model ends with its text, if it is short."""
    only = records[0] if len(records) == 1 else None
    return title if only is None or not _is_short(only.shown) else f"{title} ({visible(only.shown)})"


def _list_values(
    result: Report | Comparison, records: Sequence[StatusRecord | None], grid: Grid, row: int
) -> tuple[Value, ...]:
    from profilerkit.results.comparison import Comparison

    if isinstance(result, Comparison):
        return tuple(compare_values(result, records, grid, row))
    return tuple(describe_value(result, record, grid, row) for record in records if record is not None)


def _identify(records: Sequence[StatusRecord | None]) -> object:
    """Return a key that is equal for metrics that share a card; None unless all values are complete, not 0, not times.

    The exact values are compared, because a comparison shows rounded values.
    """
    exact = [record for record in records if record is not None and _is_exact(record)]
    return tuple((record.value, record.base_unit) for record in exact) if len(exact) == len(records) else None


def _is_exact(record: StatusRecord) -> bool:
    """Return whether a value is complete, no measurement, and neither 0 nor empty."""
    is_complete = record.completeness is Completeness.COMPLETE
    return is_complete and _is_value(record) and not isinstance(record.value, Measurement) and bool(record.value)
