"""A report or comparison as LaTeX: booktabs tables to put into a paper."""

from __future__ import annotations

from collections.abc import Iterable

from ..results.comparison import Comparison
from ..results.report import Report
from .content import parts
from .grids import Grid, Notes
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
    "*": "{*}",  # like a bracket, it would belong to the end of the row above
}
#: Rows of a table that still fits a page; a longer one goes on in further tables.
_PAGE = 40
#: A table that is wider than the line of text is scaled down to it.
_TO_FIT = "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}"
#: The widths of a term and of its description, which may take several lines.
_TERM, _DESCRIPTION = "0.3\\linewidth", "0.62\\linewidth"


def render(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
) -> str:
    r"""Return a report or comparison as tables; the preamble needs ``\usepackage{booktabs,graphicx}``.

    See `Selection` for the options. Letters that ASCII lacks, in names, are written by their
    code points, so that every TeX engine takes them.
    """
    lines = ["% needs \\usepackage{booktabs,graphicx} in the preamble"]
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
    """Return a grid as a booktabs table with its title as the caption; a long one as several tables, a page each."""
    titles = _write_row(title.replace("\n", " ") for title in grid.titles)
    depths = grid.depths or [0] * len(grid.rows)
    rows = [_write_row(cells, depth) for cells, depth in zip(grid.rows, depths, strict=True)]
    pages = [rows[start : start + _PAGE] for start in range(0, len(rows), _PAGE)]
    captions = [grid.title, *[f"{grid.title}, continued"] * (len(pages) - 1)]
    drawn = (_write_table(grid, caption, titles, page) for caption, page in zip(captions, pages, strict=True))
    return "\n\n\\clearpage\n".join(drawn)  # TeX holds no more than some dozens of tables that float


def _write_table(grid: Grid, caption: str, titles: str, rows: Iterable[str]) -> str:
    if grid.kind == "descriptions":
        fit, columns = "", f"p{{{_TERM}}}p{{{_DESCRIPTION}}}"
    else:
        fit, columns = _TO_FIT, "".join("r" if index in grid.numeric else "l" for index in range(len(grid.titles)))
    lines = (f"\\begin{{tabular}}{{{columns}}}", "\\toprule", titles, "\\midrule", *rows, "\\bottomrule")
    body = "\n".join((*lines, "\\end{tabular}"))
    return (
        f"\\begin{{table}}[htbp]\n\\centering\n\\caption{{{escape(caption)}}}\n"
        f"{f'{fit}{{{body}}}' if fit else body}\n\\end{{table}}"
    )


def _write_row(cells: Iterable[str], depth: int = 0) -> str:
    """Return a row, its first cell as far to the right as its layer lies deep."""
    indent = f"\\hspace*{{{depth}em}}" if depth else ""
    return f"{indent}{' & '.join(map(escape, cells))} \\\\"


def escape(text: str) -> str:
    """Return a text that TeX prints as it is; of a letter that ASCII lacks its code point: ``[U+00E9]``."""
    return "".join(
        _SPECIAL.get(letter) or (letter if letter.isascii() else f"{{[}}U+{ord(letter):04X}{{]}}") for letter in text
    )
