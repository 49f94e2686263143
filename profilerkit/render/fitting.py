"""Grids as they fit a terminal: with columns left out or folded, and as several tables if this is not enough."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rich.cells import cell_len

from .grids import Grid

__all__ = ["BEFORE_NOISE", "FittedColumn", "FittedGrid", "fit", "indent_cell"]

#: Longer names of metrics are always folded.
_LONGEST_NAME = 36
#: Shorter words are never folded: a shape [1, 256, 112, 112], a type, the end of a path.
_LONGEST_WHOLE = 24
#: A longer number is folded like a name.
_LONGEST_NUMBER = 60
#: A column of text, and the title of a column of numbers, may be narrowed to this.
_NARROWEST = 12
#: The space before the noise or the interval of a number: a long number is folded there.
BEFORE_NOISE = re.compile(r" (?=[±\[])")


class FittedColumn(NamedTuple):
    """A column of a grid by its number, and how wide it is drawn."""

    number: int
    width: int


@dataclass(frozen=True)
class FittedGrid:
    """A grid as it fits a terminal.

    Attributes:
        grid: The grid, without the columns that are left out.
        left_out: The titles of these.
        tables: The columns of each table that it is drawn as, one below the other; each begins with the first column.
    """

    grid: Grid
    left_out: Sequence[str]
    tables: Sequence[Sequence[FittedColumn]]


def fit(grid: Grid, available: int) -> FittedGrid:
    """Return a grid as it fits into so many columns of text.

    If it is too wide, units are moved behind their numbers and types behind the names of layers, which loses nothing.
    Then the least needed columns are left out. What is left is folded, and goes on in further tables.
    """
    for fold in (_fold_units, _fold_types):
        if not _fits(grid, available):
            grid = fold(grid)
    left_out = []
    for title in grid.least_needed:
        if title in grid.titles and not _fits(grid, available):
            grid = _leave_out(grid, grid.titles.index(title))
            left_out.append(" ".join(title.split()))
    widths = _measure_columns(grid)
    tables = []
    for columns in _split_into_tables(widths, available):
        squeezed = _squeeze([widths[column] for column in columns], available)
        tables.append(list(map(FittedColumn, columns, squeezed)))
    return FittedGrid(grid, list(filter(None, left_out)), tables)  # a bar has no title


def _fits(grid: Grid, available: int) -> bool:
    """Return whether a grid has so many columns of text at most, without any of its own narrowed."""
    return _add_widths(width.best for width in _measure_columns(grid)) <= available


def _leave_out(grid: Grid, left: int) -> Grid:
    """Return a grid without its column of the number ``left``."""
    return grid.select([column for column in range(len(grid.titles)) if column != left])


def _fold_units(grid: Grid) -> Grid:
    """Return a grid without a column of units, which stand behind the numbers: both stay together."""
    if "Unit" not in grid.titles:
        return grid
    unit = grid.titles.index("Unit")
    rows = tuple((*row[: unit - 1], _add_unit(row[unit - 1], row[unit]), *row[unit:]) for row in grid.rows)
    return _leave_out(replace(grid, rows=rows), unit)


def _add_unit(value: str, unit: str) -> str:
    """Return a value with its unit, before the noise and the interval of a measurement.

    >>> _add_unit("51.9 ±4% [49, 53]", "ms"), _add_unit("≥ 51.9", "kMACs"), _add_unit("51.9 k", "")
    ('51.9 ms ±4% [49, 53]', '≥ 51.9 kMACs', '51.9 k')
    """
    number, *rest = BEFORE_NOISE.split(value, maxsplit=1)
    return " ".join([f"{number} {unit}".rstrip(), *rest])


def _fold_types(grid: Grid) -> Grid:
    """Return a grid without a second column of types, which stand behind the names of layers: that takes less room."""
    if grid.titles[1:2] != ("Type",):
        return grid
    rows = tuple((f"{name}: {kind}" if kind else name, kind, *others) for name, kind, *others in grid.rows)
    return _leave_out(replace(grid, rows=rows), 1)


# Widths ---------------------------------------------------------------------------------------------------------------


class _Width(NamedTuple):
    """How wide a column must be at the least, folded where it may be, and how wide it should be."""

    least: int
    best: int


def _measure_columns(grid: Grid) -> list[_Width]:
    """Return how wide each column of a grid must be, and should be."""
    return [_measure_column(grid, column) for column in range(len(grid.titles))]


def _measure_column(grid: Grid, column: int) -> _Width:
    heading = max(map(cell_len, grid.titles[column].split("\n")))
    cells = (cell_len(indent_cell(grid, row, column)) for row in range(len(grid.rows)))
    best = max([heading, *cells])
    if column == 0:  # names, which are folded anywhere
        best = min(best, _LONGEST_NAME) if grid.kind == "metrics" else best
        return _Width(min(best, _LONGEST_WHOLE), best)
    texts = [row[column] for row in grid.rows]
    if column in grid.numeric:
        pieces = [piece for text in texts for piece in BEFORE_NOISE.split(text)]
        longest = min(max(map(cell_len, pieces), default=0), _LONGEST_NUMBER)
        return _Width(max(longest, min(heading, _NARROWEST)), best)
    words = [word for text in texts for word in ([text] if text.startswith("[") else text.split())]  # shapes stay whole
    longest = min(max(map(cell_len, words), default=0), _LONGEST_WHOLE)
    return _Width(min(best, max(longest, _NARROWEST)), best)


def _add_widths(widths: Iterable[int]) -> int:
    """Return the width of a table with columns of these widths, separators included."""
    return sum(width + 3 for width in widths) - 1


def _split_into_tables(widths: Sequence[_Width], available: int) -> list[list[int]]:
    """Return the columns of each table that a grid is drawn as: as many as fit if folded, the first one in each."""
    tables = [[0]]
    for column in range(1, len(widths)):
        widened = _add_widths(widths[number].least for number in (*tables[-1], column))
        if len(tables[-1]) > 1 and widened > available:
            tables.append([0])
        tables[-1].append(column)
    return tables


def _squeeze(widths: Sequence[_Width], available: int) -> list[int]:
    """Return the best widths, with the widest columns narrowed until the table fits."""
    fitted = [min(width.best, max(width.least, available)) for width in widths]
    for _ in range(_add_widths(fitted) - available):
        narrower = [column for column, width in enumerate(widths) if fitted[column] > width.least]
        if narrower:
            fitted[max(narrower, key=fitted.__getitem__)] -= 1
    return fitted


def indent_cell(grid: Grid, row: int, column: int) -> str:
    """Return a cell; one of the first column is indented by the depth of its row."""
    indent = "  " * grid.depths[row] if grid.depths and not column else ""
    return f"{indent}{grid.rows[row][column]}"
