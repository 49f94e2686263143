"""Checks of the layers and operators of a report that was read from a file, so that every renderer can draw them.

A renderer follows paths, indents by depth, adds up counts and stacks the times of operators. Any other table has
columns of its own, and is not checked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from ..error_text import shown
from ..times.operator_times import COLUMNS
from ..trace.columns import TRAFFIC, WORK
from ..trace.layer_paths import count_depth, parent_path
from ..trace.records import LayerTable
from ..trace.table import Table

__all__ = ["require_layers", "require_once", "require_operator_times", "require_operators"]

#: The columns that every renderer of layers reads, and every renderer of operators.
_LAYER_COLUMNS = ("path", "type", "depth", "is_leaf", "calls", "params", *WORK, "output_shapes")
_OPERATOR_COLUMNS = ("operator", "layer", *WORK)
#: The columns of the times of operators that are texts; the others are numbers.
_TEXTS = ("operator", "layer", "phase", "missing")
#: The columns of numbers from 0; the own numbers of layers too.
_COUNTS = ("calls", "params", *WORK, *TRAFFIC)
_LAYER_COUNTS = (
    *_COUNTS,
    *(f"own_{name}" for name in _COUNTS),
    *(f"{name}_share" for name in ("params", *WORK)),
    "trainable_params",
    "weight_bytes",
)


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
    _require_texts(table, ["type"], where)
    _require_shapes(table, where)
    _require_counts(table, _LAYER_COUNTS, where, may_be_unknown=True)


def require_operators(table: Table, where: str) -> None:
    """Raise `ValueError` if an operator of a trace lacks a count, or reads the result of a later operator."""
    _require_columns(table.columns, _OPERATOR_COLUMNS, where)
    for index, row in enumerate(table if "reads" in table.columns else ()):
        reads = row["reads"]
        if not isinstance(reads, tuple) or not all(type(read) is int and -1 <= read < index for read in reads):
            raise ValueError(f"{where}.rows[{index}].reads is {shown(reads)}, no numbers of rows before it")
    _require_texts(table, ("operator", "layer"), where)
    _require_counts(table, _COUNTS, where, may_be_unknown=False)


def require_operator_times(table: Table, where: str) -> None:
    """Raise `ValueError` if a name of an operator, a layer or a phase is no text, or a time or count no number.

    A table is one of operators' times if it has the columns of one, and no other.
    """
    if table.columns != COLUMNS:
        return
    _require_texts(table, _TEXTS, where)
    _require_counts(table, [column for column in COLUMNS if column not in _TEXTS], where, may_be_unknown=True)


def _require_texts(table: Table, columns: Sequence[str], where: str) -> None:
    for index, row in enumerate(table):
        for column in columns:
            if not isinstance(row[column], str):
                raise ValueError(f"{where}.rows[{index}].{column} is {shown(row[column])}, no text")


def _require_shapes(table: LayerTable, where: str) -> None:
    for index, row in enumerate(table):
        for column in ("input_shapes", "output_shapes"):
            shapes = row.get(column)
            are_shapes = isinstance(shapes, tuple) and all(isinstance(shape, tuple) for shape in shapes)
            if shapes is not None and not are_shapes:
                raise ValueError(f"{where}.rows[{index}].{column} is {shown(shapes)}, no list of shapes")


def _require_counts(table: Table, names: Iterable[str], where: str, *, may_be_unknown: bool) -> None:
    columns = [name for name in names if name in table.columns]
    for index, row in enumerate(table):
        for column in columns:
            count = row[column]
            is_count = type(count) in (int, float) and 0 <= count <= sys.float_info.max
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
