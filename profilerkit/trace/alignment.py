"""The layers of several models side by side, one row for each layer of any of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .columns import WORK, name_ends, read_bounds
from .families import find_family
from .layer_matching import match_layers
from .records import LayerTable
from .table import Table

__all__ = [
    "VALUES",
    "HasLayers",
    "align",
    "find_difference",
    "in_one_table",
    "is_foreign",
    "name_column",
    "require_layers",
]

#: The columns that are set side by side unless others are asked for.
VALUES = ("params", *WORK, "own_macs", "own_flops")

Row = Mapping[str, Any]
#: How the columns of the reference and of the other model begin.
_SIDES = ("", "other_")


class HasLayers(Protocol):
    """The parts of a report that `align` reads: the model's name, its backend, and the table of its layers."""

    @property
    def name(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def layers(self) -> LayerTable | None: ...


@dataclass(eq=False)
class _Line:
    """One row of the table: the layer in each model that has it, by the model's index."""

    rows: dict[int, Row]

    @property
    def first(self) -> Row:
        """The layer in the first model that has it."""
        return self.rows[min(self.rows)]

    def read(self, model: int, column: str) -> Any:
        """Return a value of the layer in one model; None if the model lacks the layer, or the column."""
        return self.rows.get(model, {}).get(column)


def align(reference: HasLayers, other: HasLayers, columns: Sequence[str] = VALUES) -> Table:
    """Return one row for each layer of either model, in the order of the reference.

    A layer that `match_layers` finds in both models is one row. All other layers were removed or added.

    The columns: ``change``, ``path`` (the other's if the reference lacks the layer), ``other_path``, ``type``,
    ``other_type``, ``depth``, ``is_leaf``, and for each of ``columns`` (``params``, ``macs``, ...) the value of the
    reference, the value of the other (``other_macs``), and the difference (``macs_difference``), None if one lacks the
    layer or does not know the number. If the work of a model is not known exactly, the two ends of each count follow:
    ``macs_low`` and ``macs_high`` of the reference, ``other_macs_low`` and ``other_macs_high``.

    ``change`` is "removed", "added", "changed" (one of ``columns`` differs), "same", or "unknown": no number differs
    that both models know, but one of them knows a number, or an end of it, that the other does not.

    Raises `ValueError` if one of the reports holds no layers.
    """
    ends = _list_ends([reference, other], columns)
    return Table(
        {**_compare(line, columns), **{f"{_SIDES[model]}{name}": line.read(model, name) for model, name in ends}}
        for line in _list_lines([reference, other])
    )


def find_difference(row: Row, column: str) -> float | None:
    """Return how much more the other model has in a row of `align`; a layer that only one model has counts in full.

    None if a model has the layer, and its number is not known: an unknown number is not 0.
    """
    if row["change"] == "added":
        return row[f"other_{column}"]  # type: ignore[no-any-return]
    if row["change"] == "removed":
        return None if row[column] is None else -row[column]
    return row[f"{column}_difference"]  # type: ignore[no-any-return]


def in_one_table(reports: Sequence[HasLayers], columns: Sequence[str]) -> Table:
    """Return one row for each layer of any model, in the order of the first.

    A layer of another model is in the row of the first model's layer that `match_layers` finds for it. A layer that the
    first model lacks has a separate row; several models share it if they have it at one path and of one family.

    The columns: ``path``, ``type``, ``depth`` and ``is_leaf`` of the layer in the first model that has it, and for each
    of ``columns`` and each report the value, such as ``"macs of Student"``; None if the model lacks the layer. If the
    work of a model is not known exactly, the two ends of each count follow: ``"macs_low of Student"``.

    Raises `ValueError` if one of the reports holds no layers.
    """
    columns_of_models = [(model, column) for column in columns for model in range(len(reports))]
    columns_of_models += _list_ends(reports, columns)
    return Table(
        {
            **{name: line.first[name] for name in ("path", "type", "depth", "is_leaf")},
            **{name_column(name, reports[model].name): line.read(model, name) for model, name in columns_of_models},
        }
        for line in _list_lines(reports)
    )


def name_column(column: str, model: str) -> str:
    """Return the name of a column of one model: "macs of Student"."""
    return f"{column} of {model}"


def is_foreign(reference: HasLayers, other: HasLayers) -> bool:
    """Return whether two reports are of different backends, which have names of their own for the same layers."""
    return reference.backend != other.backend


def require_layers(report: HasLayers) -> LayerTable:
    """Return the layers of a report; raises `ValueError` if it holds none."""
    if report.layers is None:
        raise ValueError(f"the report of {report.name} holds no layers, so that there is nothing to align")
    return report.layers


def _list_lines(reports: Sequence[HasLayers]) -> list[_Line]:
    """Return the lines of all models: those of the first in its order, and the layers that others add among them."""
    reference, *others = [require_layers(report) for report in reports]
    lines = [_Line({0: row}) for row in reference]
    for model, layers in enumerate(others, start=1):
        matched = match_layers(reference, layers, is_foreign=is_foreign(reports[0], reports[model]))
        _join_lines(lines, model, layers, matched)
        _insert_lines(lines, model, layers)
    return lines


def _join_lines(lines: Iterable[_Line], model: int, layers: LayerTable, matched: Mapping[str, str]) -> None:
    """Add the layers of a model to the lines of earlier models that have them.

    A layer joins the line of the reference's layer that it is ``matched`` with. Any other joins the line of a layer
    that the reference lacks, and another model has at the same path, of the same family.
    """
    by_path = {row["path"]: row for row in layers}
    matched_layers = set(matched.values())
    further = {_make_key(row): row for row in layers if row["path"] not in matched_layers}
    for line in lines:
        if 0 not in line.rows:
            row = further.get(_make_key(line.first))
        else:
            path = line.rows[0]["path"]
            row = by_path[matched[path]] if path in matched else None
        if row is not None:
            line.rows[model] = row


def _make_key(row: Row) -> tuple[str, str]:
    return row["path"], find_family(row["type"]).name


def _insert_lines(lines: list[_Line], model: int, layers: LayerTable) -> None:
    """Insert the layers of a model that have no line yet.

    The line of a layer comes behind the line of the layer before it, and behind the lines next to or inside that layer
    that only other models have.
    """
    joined = {line.rows[model]["path"]: line for line in lines if model in line.rows}
    position = 0  # behind the line of the layer before
    for row in layers:
        line = joined.get(row["path"])
        if line is not None:
            position = lines.index(line) + 1
            continue
        while position < len(lines) and _is_passed(lines[position], model, row["depth"]):
            position += 1
        lines.insert(position, _Line({model: row}))
        position += 1


def _is_passed(line: _Line, model: int, depth: int) -> bool:
    """Return whether a line is of other models alone, and not around a layer at some depth."""
    return model not in line.rows and line.first["depth"] >= depth


def _list_ends(reports: Iterable[HasLayers], columns: Iterable[str]) -> list[tuple[int, str]]:
    """Return the columns of ends that the layers of each report have, behind the index of the report."""
    ends = [name for column in columns for name in name_ends(column)]
    return [
        (model, name) for model, report in enumerate(reports) for name in ends if name in require_layers(report).columns
    ]


def _compare(line: _Line, columns: Sequence[str]) -> dict[str, Any]:
    """Return a row of `align`, without the ends of its counts."""
    theirs = line.rows.get(1)
    row: dict[str, Any] = {
        "change": _find_change(line, columns),
        "path": line.first["path"],
        "other_path": theirs["path"] if theirs else None,
        "type": line.first["type"],
        "other_type": theirs["type"] if theirs else None,
        "depth": line.first["depth"],
        "is_leaf": line.first["is_leaf"],
    }
    for column in columns:
        first, second = line.read(0, column), line.read(1, column)
        difference = None if first is None or second is None else second - first
        row |= {column: first, f"other_{column}": second, f"{column}_difference": difference}
    return row


def _find_change(line: _Line, columns: Iterable[str]) -> str:
    if len(line.rows) == 1:
        return "removed" if 0 in line.rows else "added"
    mine, theirs = line.rows[0], line.rows[1]
    comparable = [name for name in columns if mine.get(name) is not None and theirs.get(name) is not None]
    if any(mine[name] != theirs[name] for name in comparable):
        return "changed"
    is_alike = all(
        mine.get(name) == theirs.get(name) and read_bounds(mine, name) == read_bounds(theirs, name) for name in columns
    )
    return "same" if comparable and is_alike else "unknown"
