"""The layers of two or several models side by side as grids, and how the layers of two models differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

from ..foreign_text import visible
from ..results.comparison import Comparison
from ..trace.alignment import name_column
from ..trace.bounds import name_ends
from ..trace.layer_paths import within_depth
from .grids import Grid
from .layer_grids import COUNTS, GridColumn, Row, make_grid, name_layer, write_bounded, write_name
from .values import write_count

__all__ = ["all_layers_grids", "difference_grid"]

#: The counts of layers that are shown for several models, each with the title of its grid.
_ALL_MODELS = {"params": "Parameters by layer", "macs": "MACs by layer", "flops": "FLOPs by layer"}
#: Values without a column in which two models may differ: a layer may do the work of an inner layer of the other model.
_HIDDEN = {"flops": "FLOPs", "own_macs": "own MACs", "own_flops": "own FLOPs"}
#: How the keys of the first and of the second model begin in a row of two models.
_SIDES = ("", "other_")


def difference_grid(rows: Sequence[Row], title: str, names: tuple[str, str], *, nested: bool = True) -> Grid:
    """Return layers side by side: parameters and MACs in both models, and how each layer changed unless all changed.

    ``nested`` is as in `layer_grid`.
    """
    columns = [GridColumn("Layer", partial(_write_both_names, nested=nested)), GridColumn("Type", _write_both_types)]
    for key in ("params", "macs"):
        for side, name in zip(_SIDES, names, strict=True):
            heading = f"{COUNTS[key]}\n{visible(name)}"
            columns.append(GridColumn(heading, partial(_write_side, key=f"{side}{key}"), is_number=True))
    changes = list(map(_describe_change, rows))
    if any(change != "changed" for change in changes):
        columns.append(GridColumn("Change", _describe_change))
    grid = make_grid(title, columns, rows, nested)
    is_hidden = any(change != row["change"] for change, row in zip(changes, rows, strict=True))
    return replace(grid, least_needed=()) if is_hidden else grid  # no other column shows such a difference


def all_layers_grids(comparison: Comparison, depth: int | None = None) -> Iterator[Grid]:
    """Yield the layers of all models side by side: their parameters, MACs and FLOPs, each with the layers inside.

    A cell is empty if the model lacks the layer, and a hyphen if the count of the layer is 0.
    """
    rows = within_depth(comparison.all_layers(*_ALL_MODELS), depth)
    for column, title in _ALL_MODELS.items():
        columns = [GridColumn("Layer", write_name), GridColumn("Type", itemgetter("type"))]
        for report in comparison.reports:
            write = partial(_write_model, column=column, model=report.name)
            columns.append(GridColumn(visible(report.name), write, is_number=True))
        yield make_grid(title, columns, rows)


# Cells ----------------------------------------------------------------------------------------------------------------


def _write_both_names(row: Row, nested: bool) -> str:
    """Return the name of a layer in the first model, with that in the second one if it differs."""
    path, other = row["path"], row["other_path"]
    name = name_layer(path, nested)
    return name if other in (None, path) else f"{name} / {name_layer(other, nested)}"


def _write_both_types(row: Row) -> str:
    """Return the type of a layer in the first model, with that in the second one if it differs."""
    kind, other = row["type"], row["other_type"]
    return str(kind) if other in (None, kind) else f"{kind} / {other}"


def _write_side(row: Row, key: str) -> str:
    """Return a count of one of several models, with its sign; nothing for a layer that the model lacks."""
    return "" if row[key] is None else write_bounded(row, key)


def _write_model(row: Row, column: str, model: str) -> str:
    """Return a count of the model of this name in a row of all models, as `_write_side` does."""
    names = (column, *name_ends(column))
    counts = {name: row[key] for name in names if (key := name_column(name, model)) in row}
    return _write_side(counts, column)


def _describe_change(row: Row) -> str:
    """Say how a layer changed; if no column shows the difference, name the value and its difference."""
    if row["change"] != "changed" or row["params_difference"] or row["macs_difference"]:
        return str(row["change"])
    hidden = next(name for name in _HIDDEN if row[f"{name}_difference"])
    return f"{_HIDDEN[hidden]} {write_count(row[hidden])} to {write_count(row[f'other_{hidden}'])}"
