"""The layers of several models in one table: a row for each layer of any of them, a column for each model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .alignment import HasLayers, is_foreign, require_layers
from .families import find_family
from .layer_matching import match_layers
from .table import Table

__all__ = ["in_one_table", "name_column"]

Row = Mapping[str, Any]


class _Line:
    """One row of the table: the layer in each model that has it, by the model's index."""

    def __init__(self, model: int, row: Row) -> None:
        #: The layer in the first model that has it: later models only join the lines of earlier ones.
        self.first = row
        self.rows: dict[int, Row] = {model: row}


def name_column(column: str, model: str) -> str:
    """Return what the column of one model is called: "macs of Student"."""
    return f"{column} of {model}"


def in_one_table(reports: Sequence[HasLayers], columns: Sequence[str]) -> Table:
    """Return one row for each layer of any model, in the order of the first.

    A layer of another model is in the row of the first model's layer that `match_layers` finds for it. What the first
    model lacks is a row of its own, in the place where the other model has it; several models share it if they have it
    at one path and of one family.

    The columns: ``path``, ``type``, ``depth`` and ``is_leaf`` of the layer in the first model that has it, and for each
    of ``columns`` and each report the value, such as ``"macs of Student"``; None where the model lacks the layer.

    Raises `ValueError` where one of the reports holds no layers.
    """
    tables = [require_layers(report) for report in reports]
    lines = [_Line(0, row) for row in tables[0]]
    lines_of_first = {line.first["path"]: line for line in lines}
    for index in range(1, len(tables)):
        matched = match_layers(tables[0], tables[index], is_foreign=is_foreign(reports[0], reports[index]))
        _insert(lines, index, tables[index], {theirs: lines_of_first[mine] for mine, theirs in matched.items()})
    return Table(_make_rows(lines, reports, columns))


def _insert(lines: list[_Line], model: int, layers: Sequence[Row], matched: Mapping[str, _Line]) -> None:
    """Put the layers of a model into the lines that they are matched with, and the others into lines of their own."""
    position = -1  # of the line of the layer before
    for row in layers:
        line = matched.get(row["path"]) or _find_added(lines, model, row)
        if line is not None:
            line.rows[model] = row
            position = lines.index(line)
            continue
        position += 1
        while position < len(lines) and lines[position].first["depth"] > row["depth"]:
            position += 1  # past what earlier models have inside the layer before
        lines.insert(position, _Line(model, row))


def _find_added(lines: Sequence[_Line], model: int, row: Row) -> _Line | None:
    """Return the line of the same layer in another model, of the lines that the first model has no layer in."""
    for line in lines:
        if 0 in line.rows or model in line.rows:
            continue
        has_path = line.first["path"] == row["path"]
        if has_path and find_family(line.first["type"]).name == find_family(row["type"]).name:
            return line
    return None


def _make_rows(lines: Sequence[_Line], reports: Sequence[HasLayers], columns: Sequence[str]) -> Iterator[Row]:
    for line in lines:
        first = line.first
        row = {"path": first["path"], "type": first["type"], "depth": first["depth"], "is_leaf": first["is_leaf"]}
        for column in columns:
            for index, report in enumerate(reports):
                layer = line.rows.get(index)
                row[name_column(column, report.name)] = None if layer is None else layer.get(column)
        yield row
