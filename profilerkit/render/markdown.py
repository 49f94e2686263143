"""A report or comparison as Markdown: tables for a pull request or a page."""

from __future__ import annotations

import re

from ..results.comparison import Comparison
from ..results.report import Report
from .content import parts
from .grids import Grid, Notes
from .selection import Selection

__all__ = ["escape", "render", "table"]


def render(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
) -> str:
    """Return a report or comparison as GitHub's Markdown; see `Selection` for the options."""
    drawn = []
    for part in parts(result, Selection(details, depth, top, changes)):
        if isinstance(part, Notes):
            drawn.append("\n".join(f"- {escape(line)}" for line in part.lines))
        else:
            drawn += [f"### {escape(part.title)}", table(part) if part.rows else ""]
    return "\n\n".join(filter(None, drawn)) + "\n"


def table(grid: Grid) -> str:
    """Return a grid as a table of GitHub's; rows are indented by their depth."""
    sides = ["---:" if index in grid.numeric else "---" for index in range(len(grid.titles))]
    lines = [[escape(title.replace("\n", " ")) for title in grid.titles], sides]
    for index, (label, *cells) in enumerate(grid.rows):
        indent = "&emsp;" * grid.depths[index] if grid.depths else ""
        lines.append([f"{indent}{escape(label)}", *map(escape, cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape(text: str) -> str:
    """Return a text without anything that Markdown or the HTML inside it would take for its own.

    Nobody is notified either: ``@name`` and ``#1`` stay text.
    """
    entities = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _REFERENCE.sub("\\g<0>&#8203;", re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", entities))


#: By which GitHub mentions people and refers to issues: a space of no width after it, and it does neither.
_REFERENCE = re.compile(r"@(?=\w)|#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
