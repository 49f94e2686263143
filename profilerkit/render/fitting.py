"""Grids as they fit a terminal: with columns left out or folded, and as several tables if this is not enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from .column_widths import BEFORE_NOISE, add_widths, measure_columns, split_into_tables, squeeze
from .grids import Grid

__all__ = ["FittedColumn", "FittedGrid", "fit"]


class FittedColumn(NamedTuple):
    """A column of a grid by its number, and how wide it is drawn."""

    number: int
    width: int


@dataclass(frozen=True)
class FittedGrid:
    """A grid as it fits a terminal.

    Attributes:
        grid: The grid, without the columns that are left out.
        left_out: The titles of these, as far as nothing stands in their place.
        tables: The columns of each table that it is drawn as, one below the other; each begins with the first column.
    """

    grid: Grid
    left_out: Sequence[str]
    tables: Sequence[Sequence[FittedColumn]]


def fit(grid: Grid, available: int) -> FittedGrid:
    """Return a grid as it fits into so many columns of text."""
    left_out = _choose_left_out(grid, available)
    grid = _without_columns(grid, left_out)
    if "Unit" in grid.titles and _needs_several_tables(grid, available):
        grid = _move_units(grid)
    if "Type" in grid.titles[1:2] and _needs_several_tables(grid, available):
        grid = _fold_types(grid)
    widths = measure_columns(grid)
    tables = []
    for columns in split_into_tables(widths, available):
        squeezed = squeeze([widths[column] for column in columns], available)
        tables.append(list(map(FittedColumn, columns, squeezed)))
    missed = [" ".join(title.split()) for title in left_out if title not in ("Type", "")]  # types are behind the names
    return FittedGrid(grid, missed, tables)


def _needs_several_tables(grid: Grid, available: int) -> bool:
    return len(split_into_tables(measure_columns(grid), available)) > 1


def _choose_left_out(grid: Grid, available: int) -> list[str]:
    """Return the titles of the columns to leave out until the grid fits, the least needed first."""
    left_out: list[str] = []
    for title in grid.least_needed:
        if _fits(_without_columns(grid, left_out), available):
            break
        if title in grid.titles:
            left_out.append(title)
    for title in left_out[:-1]:  # a narrow one may have room again, now that a wider one is left out
        others = [other for other in left_out if other != title]
        if _fits(_without_columns(grid, others), available):
            left_out = others
    return left_out


def _fits(grid: Grid, available: int) -> bool:
    """Return whether a grid has so many columns of text at most, without any of its own narrowed."""
    return add_widths(width.best for width in measure_columns(grid)) <= available


def _without_columns(grid: Grid, titles: Iterable[str]) -> Grid:
    """Return a grid without some columns; types of layers then stand behind their names."""
    for title in titles:
        grid = _fold_types(grid) if title == "Type" else _leave_out(grid, grid.titles.index(title))
    return grid


def _leave_out(grid: Grid, left: int) -> Grid:
    """Return a grid without its column of the number ``left``."""
    return grid.select([column for column in range(len(grid.titles)) if column != left])


def _move_units(grid: Grid) -> Grid:
    """Return a grid without its column of units, which stand behind the numbers: both stay together."""
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
    """Return a grid whose second column, the types of layers, stands behind their names: that takes less room."""
    rows = tuple((f"{name}: {kind}" if kind else name, kind, *others) for name, kind, *others in grid.rows)
    return _leave_out(replace(grid, rows=rows), 1)
