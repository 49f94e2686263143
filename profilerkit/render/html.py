"""A report or comparison as one page of HTML that needs nothing else: no network, no other file.

What stands in ``page/`` is put into it: a template, a style sheet, and scripts, one for each subject. The page may load
nothing (its content security policy forbids it), and what it says of values is what every other form says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ..times.measurement import Measurement
from .bounds import KINDS
from .content import parts
from .grids import Grid, Notes, visible
from .page_data import embedded, page_data
from .page_parts import page_of, script_of, source, templates

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report, StatusRecord

__all__ = ["assets", "fragment", "render"]

#: The scripts in the order in which they build on each other.
_SCRIPTS = ("format", "model", "table", "layout", "map", "axes", "memory", "roofline", "latency", "compare", "app")
#: How many bars the small distribution on a card has, and how high they are in its own units.
_BARS, _BAR_HEIGHT = 32, 20
#: Fewer samples have no shape to show.
_FEWEST_FOR_BARS = 12
#: The text of a badge.
_STATES = {"complete": "complete", "unavailable": "unavailable", "failed": "failed"}


def render(result: Report | Comparison) -> str:
    """Return a report or comparison as a page: cards, the layers as table, icicle and treemap, and charts."""
    from ..results.comparison import Comparison, side_by_side

    if isinstance(result, Comparison):
        result = side_by_side(result.reports)
    grid, notes = _metrics(result)
    style, script = assets()
    several = isinstance(result, Comparison)
    return page_of(
        "page.html",
        style,
        script,
        title=" and ".join(visible(report.name) for report in result.reports),
        reports=[_about(report) for report in result.reports],
        several=several,
        cards=_compared_cards(result, grid) if isinstance(result, Comparison) else _cards(result, grid),
        notes=notes.lines,
        data=embedded(page_data(result)),
    )


@cache
def assets() -> tuple[str, str]:
    """Return the style and the script that every page has."""
    return source("page.css"), script_of([source(f"{name}.js") for name in _SCRIPTS])


def fragment(result: Report | Comparison) -> str:
    """Return the metrics and the notes as a piece of HTML for a notebook, in the colours of what is around it."""
    grid, notes = _metrics(result)
    titles = [title.split("\n") for title in grid.titles]
    return templates().get_template("fragment.html").render(grid=grid, titles=titles, notes=notes.lines)


def _metrics(result: Report | Comparison) -> tuple[Grid, Notes]:
    """Return the grid of the metrics and the notes below it, the first parts of the content."""
    content = parts(result)
    grid = next(part for part in content if isinstance(part, Grid))
    notes = next(part for part in content if isinstance(part, Notes))
    return grid, notes


def _about(report: Report) -> dict[str, Any]:
    facts = {
        "Backend": report.backend,
        "Model type": report.model_type,
        "Batch size": "" if report.batch_size is None else str(report.batch_size),
        "Inputs": report.inputs,
        "Created": report.created,
        "Fingerprint": report.fingerprint,
    }
    more = {**{f"Argument {key}": value for key, value in report.arguments.items()}, **report.environment}
    return {
        "name": visible(report.name),
        "facts": [(key, visible(str(value))) for key, value in facts.items() if value],
        "more": [(visible(key), visible(str(value))) for key, value in more.items() if str(value)],
    }


@dataclass(frozen=True)
class _Value:
    """A value on a card: its model, text, completeness and remarks."""

    model: str
    text: str
    unit: str = ""
    interval: str = ""
    state: str = "complete"
    reason: str = ""
    better: str = ""
    bars: tuple[float, ...] = ()
    sign: str = ""

    @property
    def badge(self) -> str:
        return KINDS[self.sign] if self.state == "partial" else _STATES.get(self.state, self.state)


@dataclass(frozen=True)
class _Card:
    """A metric: its name, what it is, and its value for each model."""

    title: str
    description: str
    values: tuple[_Value, ...]


def _cards(report: Report, grid: Grid) -> Iterator[_Card]:
    for record, (title, text, unit, _) in zip(report.statuses.values(), grid.rows, strict=True):
        number, _, interval = text.partition(" [")
        measured = isinstance(record.value, Measurement) and bool(interval)
        shown = number if measured else text
        value = _Value(
            visible(report.name),
            "no value" if record.value is None else shown,
            unit,
            f"{record.value.interval_name} [{interval.partition(';')[0].removesuffix(']')}]" if measured else "",
            record.completeness.value,
            _reason(record),
            bars=_bars(record.value.samples) if isinstance(record.value, Measurement) else (),
            sign=record.sign,
        )
        yield _Card(title, visible(record.description), (value,))


def _compared_cards(comparison: Comparison, grid: Grid) -> Iterator[_Card]:
    count = len(comparison.reports)
    for key, (title, *cells) in zip(comparison, grid.rows, strict=True):
        values = []
        description = ""
        for index, (report, text) in enumerate(zip(comparison.reports, cells, strict=False)):
            record = report.statuses.get(key)
            description = description or ("" if record is None else visible(record.description))
            better = cells[count + index - 1] if index else ""
            state = "absent" if record is None else record.completeness.value
            reason = "" if record is None else _reason(record)
            sign = "" if record is None else record.sign
            values.append(_Value(visible(report.name), text, "", "", state, reason, better, sign=sign))
        yield _Card(title, description, tuple(values))


def _reason(record: StatusRecord) -> str:
    return visible("; ".join(record.missing))


def _bars(samples: Sequence[float]) -> tuple[float, ...]:
    """Return the heights of a small histogram of the samples; none where they do not differ."""
    finite = [sample for sample in samples if math.isfinite(sample)]
    if len(finite) < _FEWEST_FOR_BARS or min(finite) == max(finite) or not math.isfinite(max(finite) - min(finite)):
        return ()
    low, width = min(finite), (max(finite) - min(finite)) / _BARS
    counts = [0] * _BARS
    for sample in finite:
        counts[min(int((sample - low) / width) if width else 0, _BARS - 1)] += 1
    return tuple(round(_BAR_HEIGHT * count / max(counts), 2) for count in counts)
