"""A report or comparison as LaTeX: booktabs tables to put into a paper."""

from __future__ import annotations

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
}
#: Rows of a table that still fits a page; longer ones are broken over pages.
_PAGE = 40
#: The columns of a term and of its description, which takes several lines.
_DESCRIPTIONS = "lp{0.6\\linewidth}"


def render(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
) -> str:
    r"""Return a report or comparison as tables; the preamble needs ``\usepackage{booktabs,longtable}``.

    See `Selection` for the options. Letters that ASCII lacks, in names, are written by their
    code points, so that every TeX engine takes them. The tables are as wide as their columns: put one that is too wide
    for the page into ``\resizebox``.
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
    """Return a grid as a booktabs table with its title as the caption; a long one goes over several pages."""
    aligned = "".join("r" if column in grid.numeric else "l" for column in range(len(grid.titles)))
    columns = _DESCRIPTIONS if grid.kind == "descriptions" else aligned
    head = _write_row(tuple(title.replace("\n", " ") for title in grid.titles))
    depths = grid.depths or [0] * len(grid.rows)
    body = "\n".join(map(_write_row, grid.rows, depths))
    caption = f"\\caption{{{escape(grid.title)}}}"
    if len(grid.rows) > _PAGE:
        return (
            f"{{\\footnotesize\\begin{{longtable}}{{{columns}}}\n{caption}\\\\\n\\toprule\n{head}\n\\midrule\n\\endhead\n"
            f"\\bottomrule\n\\endfoot\n{body}\n\\end{{longtable}}}}"
        )
    return (
        f"\\begin{{table}}[htbp]\n\\centering\n{caption}\n\\footnotesize\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\n"
        f"\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}"
    )


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
