"""How wide the columns of a grid are on a terminal, and which of them stand in one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len

from .grids import Grid, split_columns

__all__ = [
    "BEFORE_NOISE",
    "Width",
    "add_widths",
    "indent_cell",
    "measure_columns",
    "split_into_tables",
    "squeeze",
]

#: Longer names of metrics are always folded.
LONGEST_NAME = 36
#: Shorter words are never folded: a shape [1, 256, 112, 112], a type, the end of a path.
LONGEST_WHOLE = 24
#: A longer number is folded like a name.
LONGEST_NUMBER = 60
#: A column of text, and the title of a column of numbers, may be narrowed to this.
_NARROWEST = 12
#: The space before the noise or the interval of a number: a long number is folded there.
BEFORE_NOISE = re.compile(r" (?=[±\[])")


class Width(NamedTuple):
    """How wide a column must be at the least, folded where it may be, and how wide it should be."""

    least: int
    best: int


def measure_columns(grid: Grid) -> list[Width]:
    """Return how wide each column of a grid must be, and should be."""
    return [_measure_column(grid, column) for column in range(len(grid.titles))]


def _measure_column(grid: Grid, column: int) -> Width:
    heading = max(map(cell_len, grid.titles[column].split("\n")))
    cells = (cell_len(indent_cell(grid, row, column)) for row in range(len(grid.rows)))
    best = max([heading, *cells])
    texts = [row[column] for row in grid.rows]
    if column == 0:  # names, which are folded anywhere
        best = min(best, LONGEST_NAME) if grid.kind == "metrics" else best
        return Width(min(best, LONGEST_WHOLE), best)
    if column in grid.numeric:
        longest = min(_find_longest(texts, BEFORE_NOISE.split), LONGEST_NUMBER)
        return Width(max(longest, min(heading, _NARROWEST)), best)
    longest = min(_find_longest(texts, _split_sentence), LONGEST_WHOLE)
    return Width(min(best, max(longest, _NARROWEST)), best)


def _find_longest(texts: Iterable[str], split: Callable[[str], list[Any]]) -> int:
    """Return the width of the longest piece of texts that are folded between pieces alone."""
    return max((cell_len(piece) for text in texts for piece in split(text)), default=0)


def _split_sentence(text: str) -> list[str]:
    """Return the words of a sentence; shapes stay whole, as words do."""
    return [text] if text.startswith("[") else text.split()


def add_widths(widths: Iterable[int]) -> int:
    """Return the width of a table with columns of these widths, separators included."""
    return sum(width + 3 for width in widths) - 1


def split_into_tables(widths: Sequence[Width], available: int) -> list[list[int]]:
    """Return the columns of each table that a grid is drawn as, with its columns folded where they may be."""

    def fits(columns: Sequence[int]) -> bool:
        return add_widths(widths[column].least for column in columns) <= available

    return split_columns(len(widths), fits)


def squeeze(widths: Sequence[Width], available: int) -> list[int]:
    """Return the best widths, with the widest columns narrowed until the table fits."""
    fitted = [min(width.best, max(width.least, available)) for width in widths]
    for _ in range(add_widths(fitted) - available):
        narrower = [column for column, width in enumerate(widths) if fitted[column] > width.least]
        if narrower:
            fitted[max(narrower, key=fitted.__getitem__)] -= 1
    return fitted


def indent_cell(grid: Grid, row: int, column: int) -> str:
    """Return a cell; one of the first column is indented by the depth of its row."""
    indent = "  " * grid.depths[row] if grid.depths and not column else ""
    return f"{indent}{grid.rows[row][column]}"
