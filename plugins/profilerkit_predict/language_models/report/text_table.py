"""Numbers and tables as texts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from profilerkit.piping.quantity import Scale, scale_value

from ..engine.fitting import MOST_TRIED

#: The headings of a table of names and values.
PAIRS = ("", "")
#: The width of notes, in columns: every terminal has as many.
_WIDTH = 80


class TextTable(NamedTuple):
    """A table of texts."""

    title: str
    #: The titles of its columns; empty titles for a table of names and values.
    headings: Sequence[str]
    rows: Sequence[tuple[str, ...]]
    #: The text behind the title; links to the table leave it out.
    detail: str = ""

    @property
    def caption(self) -> str:
        """The title with its detail."""
        return f"{self.title}, {self.detail}" if self.detail else self.title


class Column(NamedTuple):
    """A column of a table: its heading, and its cell in each row."""

    heading: str
    cells: Sequence[str]


def join_columns(title: str, columns: Sequence[Column], detail: str) -> TextTable:
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


def show_most(number: int | None) -> str:
    """Return how many fit: "181", "-" for none, and "≥ 1,048,576" if no more were tried."""
    return f"{'≥ ' if number == MOST_TRIED else ''}{number:,}" if number else "-"


def show_count(value: float) -> str:
    """Return a count with a decimal prefix: "8.03 G"."""
    return str(scale_value(value, "", Scale.SI))


def show_bytes(value: float | None) -> str:
    """Return bytes with a binary prefix: "14.96 GiB"; "-" for None."""
    return "-" if value is None else str(scale_value(value, "B", Scale.IEC))


def show_seconds(value: float | None) -> str:
    """Return seconds with a prefix: "30.01 ms"; "-" for None."""
    return "-" if value is None else str(scale_value(value, "s", Scale.TIME))


def show_rate(value: float | None) -> str:
    """Return how many there are in a second: "1,316", or "4.57" if there are few; "-" for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
