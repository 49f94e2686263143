"""Any table as a grid: a heading for each column, and the ten rows that rank first unless more are requested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..piping.quantity import format_number
from ..times.measurement import Measurement
from ..trace.columns import WORK, name_ends
from ..trace.layer_paths import within_depth
from ..trace.layer_view import PEAK
from ..trace.rows import read_work
from ..trace.table import Table
from .grids import Grid, GridColumn, make_grid
from .ranks import rank_rows, write_ranked_title
from .values import Column, share_text, write_row_value

__all__ = ["ROWS", "table_grid"]

_Row: TypeAlias = Mapping[str, Any]

#: How many rows are shown unless another number is requested.
ROWS = 10
#: The columns shown of a table of layers or operators, which can have dozens; ``to_pandas`` and files have them all.
_SHOWN = frozenset(
    (
        *("path", "operator", "layer", "kernel", "type", "phase", "calls", "count", "output_shapes"),
        *("params", *WORK, "forward_macs", "backward_macs"),
        *("column", "samples", "median", "std", "min", "max", "noise"),
        *("seconds", "own_seconds", "average_seconds", "share", "flops_per_second", "binds"),
        *("forward_seconds", "backward_seconds", "own_forward_seconds", "own_backward_seconds"),
    )
)
#: The columns of a table of statistics: each row describes one column of another table, in the unit of that column.
_STATISTICS = frozenset(("median", "mean", "std", "min", "max", "p90", "low", "high"))


def table_grid(title: str, table: Table, top: int | None = ROWS, depth: int | None = None) -> Grid:
    """Return a table as a grid.

    Args:
        title: The title of the grid.
        table: The table. Columns without any value are left out.
        top: The most rows. A longer table is ranked, and the first rows are shown, without the layers around others;
            if no column ranks the table, the first rows in its order. None shows all.
        depth: The depth of the deepest layers to show; None and -1 for any depth.
    """
    rows: Sequence[_Row] = within_depth(table, depth)
    is_cut = top is not None and len(rows) > top
    if is_cut:
        ranked, number = rank_rows(rows), len(rows)
        rows = ranked.rows[:top]
        title = write_ranked_title(title, ranked, len(rows), number)
    names = [name for name in _choose_columns(table) if any(_has_content(row[name]) for row in rows)]
    # A tree of layers, below the model itself; a row of it has its own name alone.
    is_tree = not is_cut and "path" in names and "depth" in table.columns and not rows[0]["path"]
    columns = [
        GridColumn(
            "Layer" if name == "path" else Column.of(name).title,
            [_write_cell(row, name, is_tree) for row in rows],
            _is_numeric(rows, name),
        )
        for name in names
    ]
    depths = [row["depth"] for row in rows] if is_tree else ()
    return make_grid(title, columns, depths, kind="layers", least_needed=("FLOPs", "Calls"))


def _choose_columns(table: Table) -> list[str]:
    """Return the columns to show: in a table of layers or operators the ones in `_SHOWN`, else all; the gaps last.

    The two ends of a count, ``macs_low`` and ``macs_high``, are shown as a sign before it.
    """
    ends = {end for name in table.columns for end in name_ends(name)}
    columns = [name for name in table.columns if name not in ends]
    if not {"path", "operator"}.isdisjoint(columns):
        shown = {*_SHOWN, "missing"}
        if PEAK in columns:  # and the bytes of each layer that are alive at the peak
            shown.update(name for name in columns if name.endswith("_bytes") and not name.startswith("own_"))
        columns = [name for name in columns if name in shown]
    return sorted(columns, key="missing".__eq__)


def _has_content(value: Any) -> bool:
    return value is not None and value != "" and value != () and value != {}


def _is_numeric(rows: Iterable[_Row], name: str) -> bool:
    values = [row[name] for row in rows if row[name] is not None]
    return bool(values) and all(isinstance(value, (int, float, Measurement)) for value in values)


# Cells ----------------------------------------------------------------------------------------------------------------


def _write_cell(row: _Row, name: str, is_tree: bool) -> str:
    value = read_work(row, name)
    if name in ("path", "layer") and isinstance(value, str):
        return (value.rpartition(".")[2] if is_tree and name == "path" else value) or "(model)"
    if name in ("by", "column") and isinstance(value, str):  # the name of a column
        return Column.of(value).title
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else ""
        case int() | float():
            return _write_number(row, name)
        case Measurement():
            return Column.of(name).show(value.median)
        case Mapping():
            return ", ".join(f"{key} {format_number(content)}" for key, content in value.items())
        case tuple() | list():  # of shapes, say
            return ", ".join(str(list(item)) if isinstance(item, (tuple, list)) else str(item) for item in value)
    return str(value)


def _write_number(row: _Row, name: str) -> str:
    """Return a number with the unit that its column has, or that the row names, and the sign of a bound before it."""
    if name == "share" or (name == "noise" and "column" in row):
        return share_text(row[name])
    sign, number = write_row_value(row, name)
    return f"{sign}{_find_column(row, name).show(number)}"


def _find_column(row: _Row, name: str) -> Column:
    """Return the column whose unit a number has: the one that its row names, or its own."""
    if name == "value" and "by" in row:
        return Column.of(str(row["by"]))
    if name in _STATISTICS and "column" in row:
        return Column.of(str(row["column"]))
    return Column.of(name)._replace(unit="") if name in WORK else Column.of(name)  # the title of MACs is their unit
