"""The pages say what their sources look like: mistakes that Sphinx does not warn of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.rst")),
    *(ROOT / name for name in ("README.rst", "CONTRIBUTING.rst", "examples/README.rst", "tests/README.rst")),
]
_RULE = re.compile(r"=+(?: +=+)+")


def first_cells(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each two first cells of a simple table that stand in lines of one part of it, one below the other."""
    width, above, parts = 0, "", 0
    for line in lines:
        if _RULE.fullmatch(line):
            parts = (parts + 1) % 3
            width, above = line.index(" "), ""
        elif parts:
            cell = line[:width].strip()
            if above and cell:
                yield above, cell
            above = cell or above


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_first_cell_of_a_simple_table_goes_on_below(path: Path) -> None:
    """There a line with a first cell is a row of its own, and a sentence is cut in two: a grid table keeps it whole."""
    lines = path.read_text(encoding="utf-8").splitlines()
    cut = [
        (above, below)
        for above, below in first_cells(lines)
        if (above.endswith((",", " and", " or", " the")) and below != "\\") or below.startswith("(")
    ]
    assert cut == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_heading_has_an_empty_line_above(path: Path) -> None:
    """With another line above, the heading and its underline are text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for above, title, underline in zip(lines, lines[1:], lines[2:], strict=False):
        if re.fullmatch(r"([-~=])\1{3,}", underline) and len(underline) == len(title) and not title.startswith(" "):
            assert above == "", title
