"""Checks of tables that were read from a file, so that every renderer can draw them.

A renderer follows paths, indents by depth and expects numbers in numeric columns. All of this is checked once, when
a file is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..trace.bounds import WORK
from ..trace.layer_paths import count_depth, parent_path
from ..trace.records import LayerTable
from ..trace.rows import TRAFFIC
from ..trace.table import Table

__all__ = [
    "require_layers",
    "require_once",
    "require_operators",
    "require_rows",
    "require_times",
    "require_tree",
    "short",
]

#: Columns of which a table has all or none.
_TOGETHER = (TRAFFIC, ("graph", "node"))
#: The columns that every renderer of layers reads, and every renderer of operators.
_LAYER_COLUMNS = ("path", "type", "depth", "is_leaf", "calls", "params", *WORK, "output_shapes")
_OPERATOR_COLUMNS = ("operator", "layer", *WORK)
#: The columns that identify a layer, with their types: every layer has them.
_TYPES_OF_A_LAYER = {"path": str, "type": str, "depth": int, "is_leaf": bool}


# The contents of columns ----------------------------------------------------------------------------------------------


class _Rule(NamedTuple):
    """The kind of the cells of a column.

    Attributes:
        content: Its name in messages: "text", for "is 3, no text".
        fits: Returns whether a cell is of this kind.
    """

    content: str
    fits: Callable[[Any], bool]


def _is_count(value: Any) -> bool:
    """Return whether a value is a finite number from 0, or None; the ends of an uncertain count may be floats."""
    return value is None or (type(value) in (int, float) and 0 <= value < math.inf)


def _is_shapes(value: Any) -> bool:
    """Return whether a value is a tuple of shapes, each a tuple, or None if they are not known."""
    return value is None or (isinstance(value, tuple) and all(isinstance(shape, tuple) for shape in value))


_TEXT = _Rule("text", lambda value: isinstance(value, str))
_SHAPES = _Rule("shapes", _is_shapes)
_COUNT = _Rule("number from 0", _is_count)
_NUMBER = _Rule("number", lambda value: value is None or type(value) in (int, float))  # no bool, which is an int too

#: The kinds of columns by name. Columns of other names are not checked: plugins have columns of their own.
_RULES = {
    **dict.fromkeys(("configuration", "path", "type", "operator", "layer", "phase", "kernel", "missing"), _TEXT),
    **dict.fromkeys(("graph", "node"), _TEXT),
    "reads": _Rule("numbers of rows", lambda value: isinstance(value, tuple)),
}
#: The words for counts and for other numbers: a column has one as its name, or as the end of it, as ``own_macs`` has.
_COUNTS = ("calls", "params", *WORK, "bytes", *TRAFFIC)
_NUMBERS = ("share", "seconds", "per_second")


def _find_rule(column: str) -> _Rule | None:
    """Return the kind of a column by its name; None for an unknown name."""
    if column in _RULES:
        return _RULES[column]
    if column.endswith("_shapes"):
        return _SHAPES
    if _ends_in(column, _COUNTS):
        return _COUNT
    return _NUMBER if _ends_in(column, _NUMBERS) else None


def _ends_in(column: str, words: Iterable[str]) -> bool:
    """Return whether a name is one of some words, or ends in one: "macs" and "own_macs", not "imacs"."""
    return any(column == word or column.endswith(f"_{word}") for word in words)


def require_rows(table: Table, where: str) -> None:
    """Raise `ValueError`, naming the cell, if a cell is not of the kind of its column: text, counts, numbers."""
    rows, columns = list(table), table.columns
    for names in _TOGETHER:
        if not set(names).isdisjoint(columns):
            _require_columns(columns, names, where)
    for column in columns:
        rule = _find_rule(column)
        if rule is None:
            continue
        for index, row in enumerate(rows):
            if not rule.fits(row[column]):
                raise ValueError(f"{where}.rows[{index}].{column} is {short(row[column])}, no {rule.content}")


# The contents of tables -----------------------------------------------------------------------------------------------


def require_layers(table: LayerTable, where: str) -> None:
    """Raise `ValueError`, naming the row, if a row has no path or type, or its depth does not agree with its path."""
    for index, row in enumerate(table):
        for column, kind in _TYPES_OF_A_LAYER.items():
            if type(row.get(column)) is not kind:
                raise ValueError(f"{where}.rows[{index}] has no {column} that is a {kind.__name__}")
        depth = count_depth(row["path"])
        if row["depth"] != depth:
            actual, path = short(row["depth"]), short(row["path"])
            raise ValueError(f"{where}.rows[{index}].depth is {actual}, but {path} lies {depth} deep")


def require_tree(table: LayerTable, where: str) -> None:
    """Raise `ValueError`, naming the row, unless the layers are one tree: a root, and each inside another, once."""
    _require_columns(table.columns, _LAYER_COLUMNS, where)
    paths = [row["path"] for row in table]
    layers = set(paths)
    for index, path in enumerate(paths):
        if bool(path) != bool(index):
            raise ValueError(f"{where}.rows[{index}].path is {short(path)}; the root is the first row, and no other")
        parent = parent_path(path)
        if parent is not None and parent not in layers:
            raise ValueError(f"{where}.rows[{index}].path is {short(path)}, but no row has {short(parent)}")
    require_once(paths, f"{where}.rows", "path")


def require_times(table: Table, where: str) -> None:
    """Raise `ValueError` if a table of timed operators lacks a number that is always there, or is negative."""
    _require_counts(table, ("calls", "seconds", "share"), where)


def require_operators(table: Table, where: str) -> None:
    """Raise `ValueError` if an operator of a trace lacks a field, or reads the result of a later operator."""
    columns = table.columns
    _require_columns(columns, _OPERATOR_COLUMNS, where)
    for index, row in enumerate(table if "reads" in columns else ()):
        if not all(type(read) is int and -1 <= read < index for read in row["reads"]):
            raise ValueError(f"{where}.rows[{index}].reads is {short(row['reads'])}, no numbers of rows before it")
    _require_counts(table, [column for column in columns if _ends_in(column, _COUNTS)], where)


def _require_counts(table: Table, columns: Sequence[str], where: str) -> None:
    for index, row in enumerate(table):
        for column in columns:
            if row[column] is None or not _is_count(row[column]):
                raise ValueError(f"{where}.rows[{index}].{column} is {short(row[column])}, no {_COUNT.content}")


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
            raise ValueError(f"{where}[{index}].{field} is {short(name)}, as that of one before it")
        before.add(name)


def short(value: Any) -> str:
    """Return a value as text of 60 characters at most, for a message."""
    text = repr(value[:60] if isinstance(value, (str, tuple)) else value)
    return text if len(text) < 60 else f"{text[:57]}..."
