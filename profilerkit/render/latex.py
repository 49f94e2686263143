"""A report or comparison as LaTeX: booktabs tables to put into a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .content import parts
from .grids import Grid, Notes
from .selection import Selection

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

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
#: A table with more columns than these has smaller letters, and narrower gaps.
_WIDE = 5
_SMALLER = "\\footnotesize\\setlength{\\tabcolsep}{3pt}\n"


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
            lines += [f"\\par\\noindent{{\\footnotesize {escape(line)}}}" for line in part.lines]
        elif part.rows:
            lines += ["", table(part)]
    return "\n".join(lines) + "\n"


def table(grid: Grid) -> str:
    """Return a grid as a booktabs table with its title as the caption; a long one goes over several pages."""
    columns = "".join("r" if column in grid.numeric else "l" for column in range(len(grid.titles)))
    if grid.kind == "descriptions":  # a term, and a text that takes several lines
        columns = "lp{0.5\\linewidth}"
    size = _SMALLER if len(grid.titles) > _WIDE else ""
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


# Letters --------------------------------------------------------------------------------------------------------------


def _write_row(cells: tuple[str, ...], depth: int = 0) -> str:
    """Return a row, its first cell as far to the right as its layer lies deep."""
    indent = f"\\hspace*{{{depth}em}}" if depth else ""
    return f"{indent}{' & '.join(map(escape, cells))} \\\\"


def escape(text: str) -> str:
    """Return a text that TeX prints as it is."""
    return "".join(_SPECIAL.get(letter) or _write_letter(letter) for letter in text)


def _write_letter(letter: str) -> str:
    """Return a letter, or its code point if ASCII lacks it: ``[U+00E9]``."""
    return letter if letter.isascii() else f"{{[}}U+{ord(letter):04X}{{]}}"
