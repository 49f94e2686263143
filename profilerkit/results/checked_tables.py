"""Checks of tables that were read from a file, so that every renderer can draw them.

A renderer follows paths, indents by depth and expects numbers in numeric columns. All of this is checked once, when
a file is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..trace.bounds import WORK
from ..trace.layer_paths import count_depth, parent_path
from ..trace.operator_rows import TRAFFIC
from ..trace.records import LayerTable
from ..trace.table import Table

__all__ = [
    "LARGEST",
    "require_layers",
    "require_once",
    "require_operators",
    "require_rows",
    "require_times",
    "require_tree",
    "short",
]

#: No count is so large; a larger one could not even be divided.
LARGEST = 10**100

_TEXT = {"configuration", "path", "type", "operator", "layer", "phase", "kernel", "missing", "graph", "node"}
_COUNTS = ("calls", "params", *WORK, "bytes", *TRAFFIC)
_NUMBERS = ("share", "seconds", "per_second")
#: Columns of which a table has all or none.
_TOGETHER = (TRAFFIC, ("graph", "node"))
#: What every renderer of layers reads, and of operators.
_OF_LAYERS = ("path", "type", "depth", "is_leaf", "calls", "params", *WORK, "output_shapes")
_OF_OPERATORS = ("operator", "layer", *WORK)


def require_rows(table: Table, where: str) -> None:
    """Raise `ValueError`, naming the cell, where a column does not hold what its name says: text, counts, numbers."""
    for names in _TOGETHER:
        if any(name in table.columns for name in names):
            _require_columns(table, names, where)
    for column in table.columns:
        expected = _find_rule(column)
        if expected is None:
            continue
        kind, fits = expected
        for index, row in enumerate(table):
            if not fits(row[column]):
                raise ValueError(f"{where}.rows[{index}].{column} is {short(row[column])}, {kind}")


def require_layers(table: LayerTable, where: str) -> None:
    """Raise `ValueError`, naming the row, if a row lacks a path, or its depth is not that of its path."""
    for column, kind in (("path", str), ("type", str), ("depth", int), ("is_leaf", bool)):
        for index, row in enumerate(table):
            if type(row.get(column)) is not kind:
                raise ValueError(f"{where}.rows[{index}] has no {column} that is a {kind.__name__}")
    for index, row in enumerate(table):
        if row["depth"] != count_depth(row["path"]):
            depth, path = short(row["depth"]), short(row["path"])
            raise ValueError(f"{where}.rows[{index}].depth is {depth}, but {path} lies {count_depth(row['path'])} deep")


def require_tree(table: LayerTable, where: str) -> None:
    """Raise `ValueError`, naming the row, unless the layers are one tree: a root, and each inside another, once."""
    _require_columns(table, _OF_LAYERS, where)
    for index, row in enumerate(table):
        if bool(row["path"]) != bool(index):
            path = short(row["path"])
            raise ValueError(f"{where}.rows[{index}].path is {path}; the root is the first row, and no other")
    require_once((row["path"] for row in table), f"{where}.rows", "path")
    met = {row["path"] for row in table}
    for index, row in enumerate(table):
        parent = parent_path(row["path"])
        if parent is not None and parent not in met:
            raise ValueError(f"{where}.rows[{index}].path is {short(row['path'])}, but no row has {short(parent)}")


def require_times(table: Table, where: str) -> None:
    """Raise `ValueError` where a table of timed operators lacks a number that is always there."""
    _require_values(table, ("calls", "seconds", "share"), where)


def require_operators(table: Table, where: str) -> None:
    """Raise `ValueError` where the operators of a trace lack what is read of them, or read what comes after them."""
    _require_columns(table, _OF_OPERATORS, where)
    for index, row in enumerate(table if "reads" in table.columns else ()):
        if not all(type(read) is int and -1 <= read < index for read in row["reads"]):
            raise ValueError(f"{where}.rows[{index}].reads is {short(row['reads'])}, no numbers of rows before it")
    _require_values(table, [column for column in table.columns if _is_named(column, _COUNTS)], where)


def _require_values(table: Table, columns: Iterable[str], where: str) -> None:
    for column in columns:
        for index, row in enumerate(table):
            if row[column] is None:
                raise ValueError(f"{where}.rows[{index}].{column} is None, no number")


def _require_columns(table: Table, names: Iterable[str], where: str) -> None:
    columns = table.columns
    missing = [name for name in names if columns and name not in columns]
    if missing:
        raise ValueError(f"{where}.columns has no {missing[0]!r}")


def _find_rule(column: str) -> tuple[str, Any] | None:
    """Return what a column holds, in words and as what asks a cell; None where its name does not say."""
    if column in _TEXT:
        return "no text", _is_text
    if column.endswith("_shapes"):
        return "no shapes", _is_shapes
    if column == "reads":
        return "no numbers of rows", lambda value: isinstance(value, tuple)
    if _is_named(column, _COUNTS):
        return "no number from 0", _is_count
    if _is_named(column, _NUMBERS):
        return "no number", _is_number
    return None


def _is_named(column: str, words: tuple[str, ...]) -> bool:
    return column in words or column.endswith(tuple(f"_{word}" for word in words))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return value is None or type(value) in (int, float)


def _is_count(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value < math.inf)


def _is_shapes(value: Any) -> bool:
    return value is None or (isinstance(value, tuple) and all(isinstance(shape, tuple) for shape in value))


def short(value: Any) -> str:
    """Return a value as text of 60 characters at most, for a message."""
    text = repr(value[:60] if isinstance(value, (str, tuple)) else value)
    return text if len(text) < 60 else f"{text[:57]}..."


def require_once(names: Iterable[str], where: str, field: str) -> None:
    """Raise `ValueError`, naming the entry, if a name occurs twice."""
    met: set[str] = set()
    for index, name in enumerate(names):
        if name in met:
            raise ValueError(f"{where}[{index}].{field} is {short(name)}, as that of one before it")
        met.add(name)
