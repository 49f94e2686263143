"""The values of all metrics for a terminal: in one column, or in two from top to bottom where that fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Table

from ..trace.table import Table as DataTable
from .bounds import write_in_full, write_interval
from .console import STYLES
from .content import choose_mark
from .grids import visible

if TYPE_CHECKING:
    from ..results.report import StatusRecord

__all__ = ["Values"]

#: So many values stand in two columns.
_FEWEST_IN_TWO = 4


class _Form(NamedTuple):
    """How values are written: the format of a count that ``shown`` rounds, and whether measurements have intervals."""

    count_format: str
    has_intervals: bool


#: The most exact form first, the shortest one last. The noise before an interval says how wide it is.
_FORMS = (
    _Form("{shown} ({exact})", True),
    _Form("{shown} ({exact})", False),
    _Form("{exact}", True),
    _Form("{exact}", False),
    _Form("{shown}", True),
    _Form("{shown}", False),
)


class _Value(NamedTuple):
    """A value as it is written; ``mark`` is what is to be seen of it at once, such as "noisy"."""

    name: str
    text: str
    mark: str

    @property
    def markup(self) -> str:
        return f"[{STYLES[self.mark]}]{escape(self.text)}[/]" if self.mark else escape(self.text)


class Values:
    """The values of all metrics as rich draws them; metrics that are tables are left out.

    They are written in the most exact form in which they fit into two columns; in one column, in the most exact one.
    """

    def __init__(self, records: Iterable[StatusRecord]) -> None:
        self._records = [record for record in records if not isinstance(record.value, DataTable)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        forms = [[_write(record, form) for record in self._records] for form in _FORMS]
        fitting = (values for values in forms if _measure_two_columns(values) <= options.max_width)
        in_two = next(fitting, None) if len(self._records) >= _FEWEST_IN_TWO else None
        yield _draw(forms[0], 1) if in_two is None else _draw(in_two, 2)


def _write(record: StatusRecord, form: _Form) -> _Value:
    return _Value(visible(record.friendly_name), visible(_write_text(record, form)), choose_mark(record))


def _write_text(record: StatusRecord, form: _Form) -> str:
    if record.value is None:
        return record.completeness.value
    exact, measured = write_in_full(record), record.text_parts
    text = form.count_format.format(shown=record.shown, exact=exact) if exact else record.shown
    if measured is not None and measured.noise and not form.has_intervals:
        text = measured.without_interval
    return f"{record.sign}{text}{write_interval(record)}"


def _draw(values: Sequence[_Value], columns: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(columns):
        table.add_column(no_wrap=columns > 1)
        table.add_column(no_wrap=columns > 1)
    lines = -(-len(values) // columns)
    for line in range(lines):
        table.add_row(*(cell for value in values[line::lines] for cell in (escape(value.name), value.markup)))
    return table


def _measure_two_columns(values: Sequence[_Value]) -> int:
    """Return how wide values are in two columns, each with the names before them."""
    lines = -(-len(values) // 2)
    columns = [column for column in (values[:lines], values[lines:]) if column]
    widths = [max(len(value.name) for value in column) + max(len(value.text) for value in column) for column in columns]
    return sum(widths) + 4 * len(columns) - 2  # behind each column of the table but the last one
