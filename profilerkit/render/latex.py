"""A report or comparison as LaTeX: booktabs tables to put into a paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..results.comparison import Comparison
from ..results.report import Report
from .content import parts
from .grids import Grid, Notes, split_columns
from .selection import Selection

__all__ = ["escape", "render", "table"]

#: Characters with a meaning in TeX, and how they are written.
_SPECIAL = {
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "{\\char34}",
    "-": "{-}",
    "'": "{'}",
    "`": "{`}",
    "µ": "\\ensuremath{\\mu}",
    "≥": "\\ensuremath{\\ge}",
    "≤": "\\ensuremath{\\le}",
    "≈": "\\ensuremath{\\approx}",
    "±": "\\ensuremath{\\pm}",
    "\u00d7": "\\ensuremath{\\times}",
    "[": "{[}",
    "]": "{]}",
}
#: Rows of a table that still fits a page; longer ones are broken over pages.
_PAGE = 40
#: The width of a line in TeX's own class of articles, in points: most others have wider ones.
_LINE = 345


class _Size(NamedTuple):
    """A size of letters: its command, and in points the width of a letter, on average, and of the gaps of a column."""

    command: str
    letter: float
    gap: float


#: The widths were measured in tables that TeX has set in its own font.
_NORMAL = _Size("", 4.6, 12)
_SMALLER = (_Size("footnotesize", 3.9, 4), _Size("scriptsize", 3.65, 4), _Size("tiny", 3.15, 4))
#: The width of a letter in a term, which may be a capital.
_CAPITAL = 5.0


def render(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
) -> str:
    r"""Return a report or comparison as tables; the preamble needs ``\usepackage{booktabs,longtable}``.

    See `Selection` for the options. Letters that ASCII lacks, in names, are written by their
    code points, so that every TeX engine takes them.
    """
    lines = ["% needs \\usepackage{booktabs,longtable} in the preamble"]
    for part in parts(result, Selection(details, depth, top, changes)):
        if isinstance(part, Notes):
            lines += map(_write_paragraph, part.lines)
        elif not part.rows:  # its title says that there is nothing to show
            lines.append(_write_paragraph(part.title))
        else:
            lines += ["", table(part)]
    return "\n".join(lines) + "\n"


def _write_paragraph(text: str) -> str:
    return f"\\par\\noindent{{\\footnotesize {escape(text)}}}"


def table(grid: Grid) -> str:
    """Return a grid as a booktabs table with its title as the caption; a long one goes over several pages.

    One that no size of letters fits into a line is several tables, each with the first column.
    """
    if grid.kind == "descriptions":
        return _write_table(grid, "", _describe_terms(grid))
    widths = _measure_columns(grid)
    tables: list[str] = []
    for columns in split_columns(
        len(widths), lambda columns: _fits([widths[index] for index in columns], _SMALLER[-1])
    ):
        part = replace(grid.select(columns), title=f"{grid.title}, continued" if tables else grid.title)
        size = _choose_size([widths[column] for column in columns])
        aligned = "".join("r" if column in part.numeric else "l" for column in range(len(columns)))
        if size:
            aligned = f"@{{}}{aligned}@{{}}"  # without gaps at both ends
        tables.append(_write_table(part, size, aligned))
    return "\n\n".join(tables)


def _write_table(grid: Grid, size: str, columns: str) -> str:
    """Return a table with letters of a size, and columns that are described as TeX has it."""
    titles, *rows = _list_rows(grid)
    head = f"{_write_row(*titles)}\n\\midrule"
    body = "\n".join(_write_row(*row) for row in rows)
    caption = f"\\caption{{{escape(grid.title)}}}"
    if len(rows) > _PAGE:
        return (
            f"{{{size}\\begin{{longtable}}{{{columns}}}\n{caption}\\\\\n\\toprule\n{head}\n\\endhead\n\\bottomrule\n\\endfoot\n"
            f"{body}\n\\end{{longtable}}}}"
        )
    return (
        f"\\begin{{table}}[htbp]\n\\centering\n{caption}\n{size}\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\n{body}\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table}"
    )


def _list_rows(grid: Grid) -> list[tuple[tuple[str, ...], int]]:
    """Return the rows with how deep their layers lie; the titles first, each in one line."""
    titles = tuple(title.replace("\n", " ") for title in grid.titles)
    return [(titles, 0), *zip(grid.rows, grid.depths or [0] * len(grid.rows), strict=True)]


# Widths ---------------------------------------------------------------------------------------------------------------


def _describe_terms(grid: Grid) -> str:
    """Return the columns of a term, and of a text that takes several lines."""
    term = max(len(row[0]) for row in grid.rows) * _CAPITAL + 2 * _NORMAL.gap
    return f"lp{{{max(1 - term / _LINE, 0.4):.2f}\\linewidth}}"


def _measure_columns(grid: Grid) -> list[int]:
    """Return the letters of each column."""
    rows = _list_rows(grid)
    first = max(2 * depth + len(cells[0]) for cells, depth in rows)
    return [first, *(max(len(cells[index]) for cells, _ in rows) for index in range(1, len(grid.titles)))]


def _fits(widths: Sequence[int], size: _Size) -> bool:
    return sum(widths) * size.letter + len(widths) * size.gap <= _LINE


def _choose_size(widths: Sequence[int]) -> str:
    """Return the commands for letters so small that the columns fit a line; an empty text if they fit already."""
    if _fits(widths, _NORMAL):
        return ""
    size = next((size for size in _SMALLER if _fits(widths, size)), _SMALLER[-1])
    return f"\\{size.command}\\setlength{{\\tabcolsep}}{{2pt}}\n"


# Letters --------------------------------------------------------------------------------------------------------------


def _write_row(cells: tuple[str, ...], depth: int = 0) -> str:
    """Return a row, its first cell as far to the right as its layer lies deep."""
    indent = f"\\hspace*{{{depth}em}}" if depth else ""
    return f"{indent}{' & '.join(map(escape, cells))} \\\\"


def escape(text: str) -> str:
    """Return a text that TeX prints as it is; of a letter that ASCII lacks its code point: ``[U+00E9]``."""
    return "".join(
        _SPECIAL.get(letter) or (letter if letter.isascii() else f"{{[}}U+{ord(letter):04X}{{]}}") for letter in text
    )
