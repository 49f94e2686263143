"""A report or comparison as tables for a terminal, through rich."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from textwrap import TextWrapper

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..process.clean_output import terminal_columns
from ..process.inner_states import keep_random_state
from ..results.comparison import Comparison
from ..results.report import Report
from .content import parts
from .fitting import BEFORE_NOISE, FittedColumn, fit, indent_cell
from .grids import FIRM_SPACE, Grid, Notes, Part, join_units
from .selection import Selection

__all__ = ["draw_parts", "grid_text", "mark_up", "render", "to_text"]

#: The fewest and the most columns of a text, whatever the terminal has.
NARROWEST, WIDEST = 60, 160
#: The styles of marked cells on a terminal: a colour, and bold letters for readers who do not see the colour.
_STYLES = {"failed": "bold red", "partial": "yellow", "noisy": "yellow", "better": "green", "worse": "bold red"}


def to_text(renderable: RenderableType, width: int | None = None, color: bool = False) -> str:
    """Return a renderable as text, at the terminal's width or the given width; without colours by default."""
    columns = width or min(max(terminal_columns(100), NARROWEST), WIDEST)
    target = io.StringIO()
    console = Console(
        file=target,
        width=columns,
        color_system="standard" if color else None,
        force_terminal=color,
        force_jupyter=False,  # in a notebook rich would show the text there, and write none
        legacy_windows=False,
        highlight=False,
    )
    with keep_random_state():
        console.print(renderable)
    text = "\n".join(line.rstrip() for line in target.getvalue().splitlines())
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def render(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
    color: bool = False,
) -> str:
    """Return a report or comparison as text; see `Selection` for the options.

    With ``color`` the escape sequences of a terminal mark values that failed, are partial, noisy, better or worse.
    """
    return to_text(draw_parts(parts(result, Selection(details, depth, top, changes))), color=color)


def grid_text(grid: Grid) -> str:
    """Return one grid as text."""
    return to_text(_draw_part(grid))


def draw_parts(content: Iterable[Part]) -> RenderableType:
    """Return the parts of a result as rich draws them, one below the other."""
    return Group(*map(_draw_part, content))


def _draw_part(part: Part) -> RenderableType:
    if isinstance(part, Notes):
        return _Sentences(part.lines)
    if not part.rows:
        return Text(f"\n{part.title}", style="bold")
    return _draw_descriptions(part) if part.kind == "descriptions" else _Fitted(part)


def _draw_descriptions(grid: Grid) -> RenderableType:
    table = Table(
        box=None, show_header=False, pad_edge=False, title=Text(f"\n{grid.title}", style="bold"), title_justify="left"
    )
    table.add_column(no_wrap=True)
    table.add_column()
    for row in grid.rows:
        table.add_row(*map(escape, row))
    return table


class _Sentences:
    """Notes, each on lines of its own, that are folded between words but never between a number and its unit."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wrapper = TextWrapper(options.max_width, break_long_words=False, break_on_hyphens=False)
        for line in self._lines:
            text = "\n".join(wrapper.wrap(join_units(line)))
            yield Text(text.replace(FIRM_SPACE, " "), style="dim")


class _Fitted:
    """A table that goes on below itself if it is wider than the terminal, its first column shown again."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fitted = fit(self._grid, options.max_width)
        lacking = f" (no room for {', '.join(fitted.left_out)})" if fitted.left_out else ""
        title = f"\n{fitted.grid.title}{lacking}"
        for columns in fitted.tables:
            yield Text(title, style="bold")  # as a title of the table it would be folded to the width of that
            table = _draw_table(fitted.grid, columns)
            for line in console.render_lines(table, options, pad=False)[1:]:  # the first one is the empty upper edge
                yield from (*line, Segment.line())
            title = f"{fitted.grid.title}, continued"


def _draw_table(grid: Grid, columns: Sequence[FittedColumn]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, width in columns:
        justify: JustifyMethod = "right" if number in grid.numeric else "left"
        table.add_column(escape(grid.titles[number]), justify=justify, overflow="fold", width=width)
    for row in range(len(grid.rows)):
        table.add_row(*(_draw_cell(grid, row, column) for column in columns))
    return table


def _draw_cell(grid: Grid, row: int, column: FittedColumn) -> RenderableType:
    label = indent_cell(grid, row, column.number)
    if column.number in grid.numeric and cell_len(label) > column.width:
        label = BEFORE_NOISE.sub("\n", label)
    return mark_up(label, grid.marks.get((row, column.number), ""))


def mark_up(text: str, mark: str) -> str:
    """Return a text of rich in the style of a mark; empty for no mark."""
    return f"[{_STYLES[mark]}]{escape(text)}[/]" if mark else escape(text)
