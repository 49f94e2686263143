"""The values of all metrics of a report in one column or two, as rich draws them on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Table as DrawnTable

from ..foreign_text import visible
from ..results.report import StatusRecord
from ..trace.table import Table
from .console import mark_up
from .values import choose_mark, write_in_full, write_interval

__all__ = ["Values"]

#: So many values stand in two columns.
_FEWEST_IN_TWO = 4
#: In how many forms a value is written, see `_write_forms`.
_FORMS = 6


class _Value(NamedTuple):
    """A value as it is written.

    Attributes:
        name: The name of the metric.
        texts: The value in each form, from the most exact to the shortest.
        mark: A word that is shown beside the value in every form, such as "noisy".
    """

    name: str
    texts: Sequence[str]
    mark: str


class Values:
    """The values of all metrics as rich draws them; metrics that are tables are left out.

    They are written in the most exact form in which they fit into two columns; in one column, in the most exact one.
    """

    def __init__(self, records: Iterable[StatusRecord]) -> None:
        self._values = [
            _Value(visible(record.friendly_name), _write_forms(record), choose_mark(record))
            for record in records
            if not isinstance(record.value, Table)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        forms = range(_FORMS) if len(self._values) >= _FEWEST_IN_TWO else ()
        form = next((form for form in forms if _measure_two_columns(self._values, form) <= options.max_width), None)
        yield _draw_values(self._values, 0, 1) if form is None else _draw_values(self._values, form, 2)


def _write_forms(record: StatusRecord) -> list[str]:
    """Return the text of a value in each form.

    A count has three forms: rounded with the exact count behind it, exact, and rounded. A measurement has two: with and
    without its interval; the noise, which is always shown, tells the width. Each form of a count is tried with both
    forms of measurements.
    """
    if record.value is None:
        return [record.completeness.value] * _FORMS
    rounded, exact, measured = record.shown, write_in_full(record), record.text_parts
    if measured is not None and measured.noise:
        forms = [rounded, measured.without_interval] * 3
    elif exact:
        with_exact = f"{rounded} ({exact})"
        forms = [with_exact, with_exact, exact, exact, rounded, rounded]
    else:
        forms = [rounded] * _FORMS
    interval = write_interval(record)
    return [visible(f"{record.sign}{form}{interval}") for form in forms]


def _draw_values(values: Sequence[_Value], form: int, columns: int) -> DrawnTable:
    table = DrawnTable(box=None, show_header=False, pad_edge=False)
    for _ in range(columns):
        table.add_column(no_wrap=columns > 1)
        table.add_column(no_wrap=columns > 1)
    lines = math.ceil(len(values) / columns)
    for line in range(lines):
        cells: list[str] = []
        for value in values[line::lines]:
            cells += (escape(value.name), mark_up(value.texts[form], value.mark))
        table.add_row(*cells)
    return table


def _measure_two_columns(values: Sequence[_Value], form: int) -> int:
    """Return how wide values are in two columns, each with the names before them."""
    lines = math.ceil(len(values) / 2)
    width = 0
    for column in (values[:lines], values[lines:]):
        if column:
            width += max(len(value.name) for value in column) + max(len(value.texts[form]) for value in column)
            width += 4  # two spaces behind the names, and two behind the texts
    return width - 2  # none behind the last texts
