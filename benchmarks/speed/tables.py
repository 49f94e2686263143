"""The tables of the page: how they are written into it, read back, and compared with what is measured now."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["Figure", "Table", "find_worse", "read_table", "write_tables"]

#: How much larger than the page's a figure may be, and that it may be in any case: one in the last digit that is shown.
TOLERANCE, LAST_DIGIT = 0.10, 0.01
_NUMBER = re.compile(r"[\d,]*\.?\d+")


class Figure(NamedTuple):
    """Where a figure stands in a table."""

    row: str
    column: str


@dataclass(frozen=True)
class Table:
    """A table of texts. What stands in the first column names a row.

    Attributes:
        columns: The headings.
        rows: The texts of each row.
        guarded: The columns in which less is better.
        others: The rows that measure other programs: whatever they take is no fault of this one.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    guarded: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the table in reStructuredText."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.columns))]
        rule = "  ".join("=" * width for width in widths)
        texts = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join((rule, texts[0], rule, *texts[1:], rule))

    def list_figures(self) -> Iterator[tuple[Figure, float]]:
        """Yield the guarded figures: the first number of each cell that has one."""
        for row in self.rows:
            if row[0] in self.others:
                continue
            for column, cell in zip(self.columns, row, strict=True):
                number = _NUMBER.search(cell)
                if column in self.guarded and number:
                    yield Figure(row[0], column), float(number.group().replace(",", ""))


def find_worse(before: Table, now: Table) -> list[str]:
    """Return a line for each guarded figure that is worse than before by more than the tolerance."""
    earlier = dict(before.list_figures())
    return [
        f"{where.row}, {where.column}: {_write_change(earlier[where], figure)}"
        for where, figure in now.list_figures()
        if where in earlier and figure > max(earlier[where] * (1 + TOLERANCE), earlier[where] + 1.01 * LAST_DIGIT)
    ]


def _write_change(before: float, now: float) -> str:
    change = f"{now / before - 1:+.0%}" if before else "new"
    return f"{now:.3g}, {change} against {before:.3g}"


def read_table(page: Path, name: str, guarded: tuple[str, ...]) -> Table | None:
    """Return the table that stands in the page, or None where there is none yet."""
    _, lines, _ = _split(page.read_text(encoding="utf-8"), name)
    rules = [line for line in lines.splitlines() if set(line) == {"=", " "}]
    if not rules:
        return None
    starts = [match.span() for match in re.finditer("=+", rules[0])]
    ends = [*(start for start, _ in starts[1:]), None]
    texts = [line for line in lines.strip().splitlines() if line not in rules]
    cells = [tuple(line[start:end].strip() for (start, _), end in zip(starts, ends, strict=True)) for line in texts]
    return Table(cells[0], tuple(cells[1:]), guarded)


def write_tables(page: Path, texts: dict[str, str]) -> None:
    """Write texts between the comments of the page that name them, ``.. measured NAME: begin`` and ``: end``."""
    content = page.read_text(encoding="utf-8")
    for name, text in texts.items():
        before, _, after = _split(content, name)
        content = f"{before}\n\n{text}\n\n{after}"
    page.write_text(content, encoding="utf-8")


def _split(content: str, name: str) -> tuple[str, str, str]:
    """Return what stands in the page up to the beginning of a table, the table, and the rest."""
    begin, end = f".. measured {name}: begin", f".. measured {name}: end"
    if content.count(begin) != 1 or content.count(end) != 1:
        raise SystemExit(f"the page has no place for {name!r}: {begin!r} and {end!r}")
    before, rest = content.split(begin)
    text, after = rest.split(end)
    return before + begin, text, end + after
