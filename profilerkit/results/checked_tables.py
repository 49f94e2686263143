"""Checks of the layers and operators of a report that was read from a file, so that every renderer can draw them.

A renderer follows paths, indents by depth and adds up counts. Any other table has columns of its own, and is not
checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..error_text import shown
from ..trace.bounds import WORK
from ..trace.layer_paths import count_depth, parent_path
from ..trace.layer_work import TRAFFIC
from ..trace.records import LayerTable
from ..trace.table import Table

__all__ = ["require_layers", "require_once", "require_operators"]

#: The columns that every renderer of layers reads, and every renderer of operators.
_LAYER_COLUMNS = ("path", "type", "depth", "is_leaf", "calls", "params", *WORK, "output_shapes")
_OPERATOR_COLUMNS = ("operator", "layer", *WORK)
#: The columns of numbers from 0; the own numbers of layers too.
_COUNTS = ("calls", "params", *WORK, *TRAFFIC)


def require_layers(table: LayerTable, where: str) -> None:
    """Raise `ValueError`, naming the row, unless the layers are one tree: a root, and each inside another, once.

    The depth of a layer is that of its path, and a count is a number from 0, or None if it is not known.
    """
    _require_columns(table.columns, _LAYER_COLUMNS, where)
    paths = {row["path"] for row in table if isinstance(row["path"], str)}
    for index, row in enumerate(table):
        path, depth = row["path"], row["depth"]
        if not isinstance(path, str) or bool(path) != bool(index):
            raise ValueError(f"{where}.rows[{index}].path is {shown(path)}; the root is the first row, and no other")
        parent = parent_path(path)
        if parent is not None and parent not in paths:
            raise ValueError(f"{where}.rows[{index}].path is {shown(path)}, but no row has {shown(parent)}")
        if depth != count_depth(path):
            raise ValueError(
                f"{where}.rows[{index}].depth is {shown(depth)}, but {shown(path)} lies {count_depth(path)} deep"
            )
    require_once((row["path"] for row in table), f"{where}.rows", "path")
    _require_counts(table, where, may_be_unknown=True)


def require_operators(table: Table, where: str) -> None:
    """Raise `ValueError` if an operator of a trace lacks a count, or reads the result of a later operator."""
    _require_columns(table.columns, _OPERATOR_COLUMNS, where)
    for index, row in enumerate(table if "reads" in table.columns else ()):
        if not all(type(read) is int and -1 <= read < index for read in row["reads"]):
            raise ValueError(f"{where}.rows[{index}].reads is {shown(row['reads'])}, no numbers of rows before it")
    _require_counts(table, where, may_be_unknown=False)


def _require_counts(table: Table, where: str, *, may_be_unknown: bool) -> None:
    columns = [column for column in table.columns if column.removeprefix("own_") in _COUNTS]
    for index, row in enumerate(table):
        for column in columns:
            count = row[column]
            is_count = type(count) in (int, float) and 0 <= count < math.inf
            if not is_count and not (may_be_unknown and count is None):
                raise ValueError(f"{where}.rows[{index}].{column} is {shown(count)}, no number from 0")


def _require_columns(columns: Sequence[str], names: Iterable[str], where: str) -> None:
    """Raise `ValueError` if a table lacks a column; a table without rows has no columns, and lacks none."""
    missing = [name for name in names if columns and name not in columns]
    if missing:
        raise ValueError(f"{where}.columns has no {missing[0]!r}")


def require_once(names: Iterable[str], where: str, field: str) -> None:
    """Raise `ValueError`, naming the entry, if a name occurs twice: ``field`` of the entries of ``where``."""
    before: set[str] = set()
    for index, name in enumerate(names):
        if name in before:
            raise ValueError(f"{where}[{index}].{field} is {shown(name)}, as that of one before it")
        before.add(name)
