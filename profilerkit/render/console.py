"""A report or comparison as a console table, through rich."""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..randomness import untouched_random
from ..trace import LayerTable
from .content import layer_grid, measured_grid, parts
from .grids import Grid, Notes, Part

if TYPE_CHECKING:
    from ..comparison import Comparison
    from ..report import Report

__all__ = ["comparison_table", "layer_table", "measured_table", "render", "report_table", "to_text"]

NARROWEST, WIDEST = 80, 160
LONGEST_NAME = 36


def to_text(renderable: RenderableType, width: int | None = None) -> str:
    """Return what a renderable looks like without colours, at the terminal's width or the given one."""
    columns = width or min(max(shutil.get_terminal_size((100, 24)).columns, NARROWEST), WIDEST)
    target = io.StringIO()
    console = Console(file=target, width=columns, color_system=None, force_terminal=False, legacy_windows=False)
    with untouched_random():
        console.print(renderable)
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines()).strip("\n")


def render(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
) -> str:
    """Return a report or comparison as text; see `profilerkit.render.content.parts` for the options."""
    return to_text(_drawn(parts(result, details, depth, top, changes)))


def report_table(report: Report, details: bool = False) -> RenderableType:
    """Return the table of one model: metric, value and completeness; ``details`` adds descriptions and layers."""
    return _drawn(parts(report, details))


def comparison_table(comparison: Comparison, details: bool = False) -> RenderableType:
    """Return the models side by side, with the enhancement of each over the first."""
    return _drawn(parts(comparison, details))


def layer_table(layers: LayerTable) -> RenderableType:
    """Return the per-layer table: paths indented by depth, counts with the layers inside included."""
    return _table(layer_grid(layers))


def measured_table(title: str, layers: LayerTable) -> RenderableType:
    """Return a per-layer table of measured seconds: a column for each of its own, and what rows leave out."""
    return _table(measured_grid(title, layers))


def _drawn(said: list[Part]) -> RenderableType:
    return Group(*map(_part, said))


def _part(part: Part) -> RenderableType:
    if isinstance(part, Notes):
        return Text("\n".join(part.lines), style="dim")
    if not part.rows:
        return Text(f"\n{part.title}", style="bold")
    return _descriptions(part) if part.kind == "descriptions" else _table(part)


def _descriptions(grid: Grid) -> RenderableType:
    table = Table(
        box=None, show_header=False, pad_edge=False, title=Text(f"\n{grid.title}", style="bold"), title_justify="left"
    )
    table.add_column(no_wrap=True)
    table.add_column()
    for row in grid.rows:
        table.add_row(*map(escape, row))
    return table


def _table(grid: Grid) -> RenderableType:
    table = Table(
        title=Text(f"\n{grid.title}", style="bold"), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False
    )
    for place, title in enumerate(grid.titles):
        if place in grid.numeric:
            table.add_column(escape(title), justify="right", no_wrap=True, overflow="fold")
        elif place == 0 and grid.kind == "metrics":
            table.add_column(escape(title), overflow="fold", max_width=LONGEST_NAME)
        else:
            table.add_column(escape(title), no_wrap=title == "Unit")
    for place, (label, *cells) in enumerate(grid.rows):
        indent = "  " * grid.depths[place] if grid.depths else ""
        table.add_row(escape(f"{indent}{label}"), *map(escape, cells))
    return table
