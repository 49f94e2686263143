"""Any table as text, as HTML for a notebook and as a file.

`profilerkit.trace.table.Table` calls this module by its name, because tables are data and import nothing that draws.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..count_text import format_count
from ..errors import ArgumentError
from ..hooks.renderers import draw_html_fragment
from ..process.files import write_text
from ..times.measurement import Measurement
from ..trace.table import Table
from .console import grid_text
from .csv import write_csv
from .grids import Grid
from .markdown import table as markdown_table
from .table_grids import ROWS, table_grid

__all__ = ["draw_html_fragment", "first_rows", "save", "table_text"]


def table_text(table: Table, top: int | None = ROWS, depth: int | None = None) -> str:
    """Return a table as text."""
    return grid_text(first_rows(table, top, depth))


def first_rows(table: Table, top: int | None = ROWS, depth: int | None = None) -> Grid:
    """Return the first rows of a table as every form shows them."""
    is_whole = top is None or len(table) <= top
    rows = f", {format_count(len(table), 'row')}" if is_whole else ""  # the title of a part says how many there are
    return table_grid(f"{type(table).__name__}{rows}", table, top, depth)


def save(table: Table, path: Path) -> None:
    """Write all rows of a table to a file, in the form of its suffix."""
    forms = {
        ".csv": lambda: write_csv(table.columns, table),
        ".json": lambda: json.dumps([_make_plain(row) for row in table], indent=2) + "\n",
        ".txt": lambda: table_text(table, None) + "\n",
        ".md": lambda: markdown_table(table_grid("", table, None)) + "\n",
    }
    if path.suffix.lower() not in forms:
        raise ArgumentError(f"path={str(path)!r}: a table is written as {', '.join(forms)}; give one of these suffixes")
    write_text(path, forms[path.suffix.lower()]())


def _make_plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as values that JSON can hold."""
    return {name: value.to_dict() if isinstance(value, Measurement) else value for name, value in row.items()}
