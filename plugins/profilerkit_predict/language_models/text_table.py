"""Tables of texts, and how they and the notes below them are drawn for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["PAIRS", "Column", "TextTable", "draw_table", "join_columns", "wrap_lines"]

#: The headings of a table of names and values.
PAIRS = ("", "")
#: The width of notes: what every terminal has.
_WIDTH = 80


class TextTable(NamedTuple):
    """A table of texts.

    Attributes:
        title: Its title.
        headings: The titles of its columns; empty ones for a table of names and values.
        rows: Its rows.
        detail: What stands behind the title; links to the table leave it out.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, ...]]
    detail: str = ""

    @property
    def caption(self) -> str:
        """The title with its detail."""
        return f"{self.title}, {self.detail}" if self.detail else self.title


class Column(NamedTuple):
    """A column of a table: its heading, and its cell in each row."""

    heading: str
    cells: Sequence[str]


def join_columns(title: str, columns: Sequence[Column], detail: str = "") -> TextTable:
    """Return a table of columns."""
    rows = list(zip(*(column.cells for column in columns), strict=True))
    return TextTable(title, [column.heading for column in columns], rows, detail)


def draw_table(table: TextTable) -> str:
    """Return a table as text: the first column to the left, the others to the right, or left without headings."""
    has_headings = any(table.headings)
    lines = [table.headings, *table.rows] if has_headings else table.rows
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    drawn = []
    for line in lines:
        first, *others = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        if has_headings:
            others = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        drawn.append("  ".join([first, *others]).rstrip())
    if has_headings:
        drawn.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([table.caption, *drawn])


def wrap_lines(lines: Iterable[str]) -> str:
    """Return lines in the width of notes; an address stays whole, so that it can be copied."""
    wrapper = textwrap.TextWrapper(_WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    return "\n".join(map(wrapper.fill, lines))
