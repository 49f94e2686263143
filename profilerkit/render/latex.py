"""A report or comparison as LaTeX: booktabs tables to put into a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .content import parts
from .grids import Grid, Notes

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["escape", "render", "table"]

#: What TeX would take for its own, and how it is written instead.
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
#: The widths of a letter, of one in a term with capitals, and of the gap beside a column, in points.
_LETTER, _CAPITAL, _GAP = 4.6, 5.0, 12
#: What makes a table smaller: the size of its letters, how wide they are, and the gap beside a column.
_SMALLER = [(name, width, 4) for name, width in (("footnotesize", 3.9), ("scriptsize", 3.65), ("tiny", 3.15))]


def render(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
) -> str:
    r"""Return a report or comparison as tables; the preamble needs ``\usepackage{booktabs,longtable}``.

    See `profilerkit.render.content.parts` for the options. Letters that ASCII lacks, in names, are written by their
    code points, so that every TeX engine takes them.
    """
    lines = ["% needs \\usepackage{booktabs,longtable} in the preamble"]
    for part in parts(result, details, depth, top, changes):
        if isinstance(part, Notes):
            lines += [f"\\par\\noindent{{\\footnotesize {escape(line)}}}" for line in part.lines]
        elif part.rows:
            lines += ["", table(part)]
    return "\n".join(lines) + "\n"


def table(grid: Grid) -> str:
    """Return a grid as a booktabs table with its title as the caption; a long one goes over several pages."""
    columns = "".join("r" if index in grid.numeric else "l" for index in range(len(grid.titles)))
    size = _choose_size(grid)
    if size:
        columns = f"@{{}}{columns}@{{}}"  # without gaps at both ends
    if grid.kind == "descriptions":  # a term, and a text that takes several lines
        term = max(len(row[0]) for row in grid.rows) * _CAPITAL + 2 * _GAP
        columns, size = f"lp{{{max(1 - term / _LINE, 0.4):.2f}\\linewidth}}", ""
    titles = tuple(title.replace("\n", " ") for title in grid.titles)
    head = f"{_write_row(titles)}\n\\midrule"
    depths = grid.depths or [0] * len(grid.rows)
    body = "\n".join(_write_row(row, depth) for row, depth in zip(grid.rows, depths, strict=True))
    caption = f"\\caption{{{escape(grid.title)}}}"
    if len(grid.rows) > _PAGE:
        return (
            f"{{{size}\\begin{{longtable}}{{{columns}}}\n{caption}\\\\\n\\toprule\n{head}\n\\endhead\n\\bottomrule\n\\endfoot\n"
            f"{body}\n\\end{{longtable}}}}"
        )
    return (
        f"\\begin{{table}}[htbp]\n\\centering\n{caption}\n{size}\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\n{body}\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table}"
    )


def _choose_size(grid: Grid) -> str:
    """Return what makes a grid as small as it must be to fit a line; nothing for one that fits."""
    depths = grid.depths or [0] * len(grid.rows)
    cells = [tuple(title.replace("\n", " ") for title in grid.titles), *grid.rows]
    indents = [0, *(2 * depth for depth in depths)]
    firsts = max(indent + len(row[0]) for indent, row in zip(indents, cells, strict=True))
    letters = firsts + sum(max(len(row[index]) for row in cells) for index in range(1, len(grid.titles)))
    if letters * _LETTER + len(grid.titles) * _GAP <= _LINE:
        return ""
    fitting = (name for name, width, gap in _SMALLER if letters * width + len(grid.titles) * gap <= _LINE)
    return f"\\{next(fitting, _SMALLER[-1][0])}\\setlength{{\\tabcolsep}}{{2pt}}\n"


def _write_row(cells: tuple[str, ...], depth: int = 0) -> str:
    """Return a row, its first cell as far to the right as its layer lies deep."""
    indent = f"\\hspace*{{{depth}em}}" if depth else ""
    return f"{indent}{' & '.join(map(escape, cells))} \\\\"


def escape(text: str) -> str:
    """Return a text that TeX prints as it is."""
    return "".join(_SPECIAL.get(letter) or _write_letter(letter) for letter in text)


def _write_letter(letter: str) -> str:
    """Return a letter, or its code point where ASCII lacks it: ``[U+00E9]``."""
    return letter if letter.isascii() else f"{{[}}U+{ord(letter):04X}{{]}}"
