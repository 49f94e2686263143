"""Tables of text and notes, before any form is given to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..foreign_text import visible

if TYPE_CHECKING:
    from ..results.report import Report

__all__ = ["MARKS", "Grid", "Notes", "Part", "list_titled_values", "visible"]


#: What cells may be marked as.
MARKS = ("failed", "partial", "noisy", "better", "worse")


@dataclass(frozen=True)
class Grid:
    """A table of text: columns of numbers, which stand right, are those of ``numeric``; ``depths`` indent rows.

    ``marks`` say what a reader should see of a cell, by row and column: one of `MARKS`.
    """

    title: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    depths: tuple[int, ...] = ()
    kind: str = ""
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", visible(self.title))
        object.__setattr__(self, "rows", tuple(tuple(map(visible, row)) for row in self.rows))
        object.__setattr__(self, "titles", tuple("\n".join(map(visible, title.split("\n"))) for title in self.titles))


@dataclass(frozen=True)
class Notes:
    """Sentences that belong to the grid before them."""

    lines: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", tuple(map(visible, self.lines)))


def list_titled_values(reports: Sequence[Report], fits: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Yield each value of that kind with a title; of several reports it has the name of the report."""
    for report in reports:
        named = f" of {report.name}" if len(reports) > 1 else ""
        for record in report.statuses.values():
            if fits(record.value):
                yield f"{record.friendly_name}{named}", record.value


Part: TypeAlias = "Grid | Notes"
