"""A report or comparison as tables for a terminal, through rich."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import replace
from textwrap import TextWrapper
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..process.clean_output import terminal_columns
from ..process.randomness import keep_random_state
from ..trace.records import LayerTable
from .content import parts
from .grids import FIRM_SPACE, Grid, Notes, Part, join_units
from .layer_grids import layer_grid

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["STYLES", "draw_parts", "grid_text", "layer_table", "render", "to_text"]

NARROWEST, WIDEST = 60, 160
LONGEST_NAME = 36
#: Shorter ones are not folded: a shape [1, 256, 112, 112], a type, the end of a path.
LONGEST_WHOLE = 24
#: A longer number is folded like a name.
LONGEST_NUMBER = 60


#: What stands before the noise or the interval of a number: there it is folded where room lacks.
_BEFORE_NOISE = re.compile(r" (?=[±\[])")
#: How marked cells look on a terminal: in colour, and by weight for those who do not see the colour.
STYLES = {"failed": "bold red", "partial": "yellow", "noisy": "yellow", "better": "green", "worse": "bold red"}


def to_text(renderable: RenderableType, width: int | None = None, color: bool = False) -> str:
    """Return what a renderable looks like, at the terminal's width or the given one; without colours unless asked."""
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


def _fits(grid: Grid, width: int) -> bool:
    """Return whether a grid has so many columns of text at most, without any of its own narrowed."""
    return _add_widths(best for _, best in _measure_columns(grid)) <= width


def render(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
    color: bool = False,
) -> str:
    """Return a report or comparison as text; see `profilerkit.render.content.parts` for the options.

    With ``color`` it has the escape sequences of a terminal: what failed, is partial or noisy, is better or worse.
    """
    return to_text(draw_parts(parts(result, details, depth, top, changes)), color=color)


def layer_table(layers: LayerTable) -> RenderableType:
    """Return the per-layer table: paths indented by depth, counts with the layers inside included."""
    return _Fitted(layer_grid(layers))


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
    """A table that goes on below itself where it is wider than the terminal, its first column shown again."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid, left_out = _leave_out_columns(self.grid, options.max_width)
        widths = _measure_columns(grid)
        if "Unit" in grid.titles and len(_split_columns(widths, options.max_width)) > 1:
            grid = _move_units(grid)
            widths = _measure_columns(grid)
        if "Type" in grid.titles[1:2] and len(_split_columns(widths, options.max_width)) > 1:
            grid = _fold_types(grid)
            widths = _measure_columns(grid)
        lacking = f" (no room for {', '.join(left_out)})" if left_out else ""
        title = f"\n{grid.title}{lacking}"
        for columns in _split_columns(widths, options.max_width):
            yield Text(title, style="bold")  # as a title of the table it would be folded to the width of that
            table = _draw_table(grid, columns, _squeeze([widths[column] for column in columns], options.max_width))
            for line in console.render_lines(table, options, pad=False)[1:]:  # the first one is the empty upper edge
                yield from (*line, Segment.line())
            title = f"{grid.title}, continued"


def _leave_out_columns(grid: Grid, available: int) -> tuple[Grid, list[str]]:
    """Return a grid without those columns that it needs least, as far as it is too wide, and the titles of those.

    One that has room once a wider one is left out after it comes back.
    """
    left_out: list[str] = []
    for title in filter(grid.titles.__contains__, grid.least_needed):
        if _fits(_without_columns(grid, left_out), available):
            break
        left_out.append(title)
    for title in left_out[:-1]:
        others = [other for other in left_out if other != title]
        if _fits(_without_columns(grid, others), available):
            left_out = others
    return _without_columns(grid, left_out), [
        " ".join(title.split()) for title in left_out if title not in ("Type", "")
    ]


def _without_columns(grid: Grid, titles: Iterable[str]) -> Grid:
    """Return a grid without some columns; types of layers then stand behind their names."""
    for title in titles:
        grid = _fold_types(grid) if title == "Type" else _leave_out(grid, grid.titles.index(title))
    return grid


def _leave_out(grid: Grid, left: int) -> Grid:
    """Return a grid without one of its columns."""

    def without(cells: tuple[str, ...]) -> tuple[str, ...]:
        return cells[:left] + cells[left + 1 :]

    def move(column: int) -> int:
        return column - (column > left)

    rows = tuple(map(without, grid.rows))
    numeric = frozenset(move(column) for column in grid.numeric if column != left)
    marks = {(row, move(column)): mark for (row, column), mark in grid.marks.items() if column != left}
    return replace(grid, titles=without(grid.titles), rows=rows, numeric=numeric, marks=marks)


def _move_units(grid: Grid) -> Grid:
    """Return a grid without its column of units, which stand behind the values: both stay together."""
    unit = grid.titles.index("Unit")
    rows = tuple((*row[: unit - 1], f"{row[unit - 1]} {row[unit]}".rstrip(), *row[unit:]) for row in grid.rows)
    return _leave_out(replace(grid, rows=rows), unit)


def _fold_types(grid: Grid) -> Grid:
    """Return a grid whose second column, the types of layers, stands behind their names: that takes less room."""
    rows = tuple((f"{name}: {kind}" if kind else name, kind, *others) for name, kind, *others in grid.rows)
    return _leave_out(replace(grid, rows=rows), 1)


def _measure_columns(grid: Grid) -> list[tuple[int, int]]:
    """Return the least and the best width of each column: names, titles and what is behind numbers are folded."""
    widths = []
    for column, title in enumerate(grid.titles):
        cells = max((cell_len(_write_cell(grid, number, column)) for number in range(len(grid.rows))), default=0)
        heading = max(map(cell_len, title.split("\n")))
        best = max(cells, heading)
        if column == 0:
            best = min(best, LONGEST_NAME) if grid.kind == "metrics" else best
            least = min(best, LONGEST_WHOLE)
        else:
            pieces = [piece for row in grid.rows for piece in _BEFORE_NOISE.split(row[column])]
            number = max(min(max(map(cell_len, pieces), default=0), LONGEST_NUMBER), min(heading, 12))
            least = number if column in grid.numeric else _measure_words(grid, column, best)
        widths.append((least, best))
    return widths


def _measure_words(grid: Grid, column: int, best: int) -> int:
    """Return the least width of a column of words: sentences are folded between them, shapes and words stay whole."""
    cells = [row[column] for row in grid.rows]
    words = [word for cell in cells for word in ([cell] if cell.startswith("[") else cell.split())]
    longest = max(map(cell_len, words), default=0)
    return min(best, max(12, min(longest, LONGEST_WHOLE)))


def _write_cell(grid: Grid, number: int, column: int) -> str:
    indent = "  " * grid.depths[number] if grid.depths and not column else ""
    return f"{indent}{grid.rows[number][column]}"


def _add_widths(widths: Iterable[int]) -> int:
    """Return the width of a table with columns of these widths, separators included."""
    return sum(width + 3 for width in widths) - 1


def _split_columns(widths: list[tuple[int, int]], available: int) -> list[list[int]]:
    """Return the columns of each table that a grid is drawn as: as many as fit, the first one in each."""
    pieces = [[0]]
    for column in range(1, len(widths)):
        if len(pieces[-1]) > 1 and _add_widths(widths[item][0] for item in [*pieces[-1], column]) > available:
            pieces.append([0])
        pieces[-1].append(column)
    return pieces


def _squeeze(widths: list[tuple[int, int]], available: int) -> list[int]:
    """Return the best widths, with the widest columns narrowed until the table fits."""
    fitted = [min(best, max(least, available)) for least, best in widths]
    for _ in range(_add_widths(fitted) - available):
        narrower = [column for column, (least, _) in enumerate(widths) if fitted[column] > least]
        if narrower:
            fitted[max(narrower, key=fitted.__getitem__)] -= 1
    return fitted


def _draw_table(grid: Grid, columns: list[int], widths: list[int]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        justify: JustifyMethod = "right" if column in grid.numeric else "left"
        table.add_column(escape(grid.titles[column]), justify=justify, overflow="fold", width=width)
    for number in range(len(grid.rows)):
        cells = (_draw_cell(grid, number, column, width) for column, width in zip(columns, widths, strict=True))
        table.add_row(*cells)
    return table


def _draw_cell(grid: Grid, number: int, column: int, width: int) -> RenderableType:
    label = _write_cell(grid, number, column)
    if column in grid.numeric and cell_len(label) > width:
        label = _BEFORE_NOISE.sub("\n", label)
    text = escape(label)
    mark = grid.marks.get((number, column))
    return f"[{STYLES[mark]}]{text}[/]" if mark else text
