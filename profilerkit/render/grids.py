"""Tables of text and notes, before any form is given to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from ..foreign_text import visible
from ..results.report import Report, StatusRecord

__all__ = [
    "FIRM_SPACE",
    "MARKS",
    "Grid",
    "GridColumn",
    "Notes",
    "Part",
    "join_units",
    "list_records",
    "make_grid",
]


#: The marks of cells.
MARKS = ("failed", "partial", "noisy", "better", "worse")
#: A space at which no line is folded.
FIRM_SPACE = "\u00a0"
_UNIT = r"%|(?:[kMGTP]i?)?B|[mµn]?s|[kMGTP]|[kMGTP]?(?:MACs|FLOPs)"
_BEFORE_UNIT = re.compile(rf"(?<=\d) (?=(?:{_UNIT})(?!\w))")


@dataclass(frozen=True)
class Grid:
    """A table of text: the columns in ``numeric`` are numbers, which stand right; ``depths`` indent rows.

    ``marks`` has the mark of a cell, one of `MARKS`, by row and column. ``least_needed`` are the titles of the columns
    that a narrow terminal leaves out, in this order.
    """

    title: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    depths: tuple[int, ...] = ()
    kind: str = ""
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    least_needed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", visible(self.title))
        object.__setattr__(self, "rows", tuple(tuple(map(visible, row)) for row in self.rows))
        object.__setattr__(self, "titles", tuple("\n".join(map(visible, title.split("\n"))) for title in self.titles))

    def select(self, columns: Sequence[int]) -> Grid:
        """Return the grid with these columns alone."""
        numbers = {column: number for number, column in enumerate(columns)}
        return replace(
            self,
            titles=tuple(self.titles[column] for column in columns),
            rows=tuple(tuple(row[column] for column in columns) for row in self.rows),
            numeric=frozenset(numbers[column] for column in columns if column in self.numeric),
            marks={(row, numbers[column]): mark for (row, column), mark in self.marks.items() if column in numbers},
        )


class GridColumn(NamedTuple):
    """A column of a grid: its title, the cells of all rows, and whether they are numbers."""

    title: str
    cells: Sequence[str]
    is_number: bool = False


def make_grid(
    title: str,
    columns: Sequence[GridColumn],
    depths: Sequence[int] = (),
    *,
    kind: str = "",
    least_needed: tuple[str, ...] = (),
) -> Grid:
    """Return the grid of these columns; for the other arguments see `Grid`."""
    titles = tuple(column.title for column in columns)
    rows = tuple(zip(*(column.cells for column in columns), strict=True))
    numeric = frozenset(index for index, column in enumerate(columns) if column.is_number)
    return Grid(title, titles, rows, numeric, tuple(depths), kind, least_needed=least_needed)


@dataclass(frozen=True)
class Notes:
    """Sentences that belong to the grid before them."""

    lines: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", tuple(map(visible, self.lines)))


def join_units(text: str) -> str:
    """Return a text with firm spaces between numbers and their units, so that no line is folded there."""
    return _BEFORE_UNIT.sub(FIRM_SPACE, text)


def list_records(report: Report, *kinds: type) -> list[StatusRecord]:
    """Return the records of a report whose values are of one of these kinds: measurements, tables."""
    return [record for record in report.statuses.values() if isinstance(record.value, kinds)]


Part: TypeAlias = "Grid | Notes"
