"""The layers of two models side by side, one row for each layer of either model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from .bounds import WORK
from .layer_matching import match_layers
from .records import LayerTable
from .table import Table

__all__ = ["VALUES", "HasLayers", "align", "is_foreign", "require_layers"]

#: The columns that are set side by side unless others are asked for.
VALUES = ("params", *WORK, "own_macs", "own_flops")

Row = Mapping[str, Any]


class HasLayers(Protocol):
    """A model's name, the backend that has traced it, and the table of its layers, as a report has them."""

    @property
    def name(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def layers(self) -> LayerTable | None: ...


def align(reference: HasLayers, other: HasLayers, columns: Sequence[str] = VALUES) -> Table:
    """Return one row for each layer of either model, in the order of the reference.

    A layer that `match_layers` finds in both models is one row. What is left was removed or added.

    The columns: ``change`` ("same", "changed", "removed", "added"), ``path`` (the other's where the reference has no
    such layer), ``other_path``, ``type``, ``other_type``, ``depth``, ``is_leaf``, and for each of ``columns``
    (``params``, ``macs``, ...) what the reference has, what the other has (``other_macs``), and the difference
    (``macs_difference``), None where one lacks the layer. A layer has changed if one of these columns has.

    Raises `ValueError` where one of the reports holds no layers.
    """
    mine, theirs = require_layers(reference), require_layers(other)
    matched = match_layers(mine, theirs, is_foreign=is_foreign(reference, other))
    return Table(_list_rows(mine, theirs, matched, columns))


def is_foreign(reference: HasLayers, other: HasLayers) -> bool:
    """Return whether two reports are of different backends, which have names of their own for the same layers."""
    return reference.backend != other.backend


def require_layers(report: HasLayers) -> LayerTable:
    """Return the layers of a report; raises `ValueError` where it holds none."""
    if report.layers is None:
        raise ValueError(f"the report of {report.name} holds no layers, so that there is nothing to align")
    return report.layers


def _list_rows(
    reference: LayerTable, other: LayerTable, matched: Mapping[str, str], columns: Sequence[str]
) -> Iterator[Row]:
    """Yield a row for each layer; one that the other model alone has comes before the next layer that both have."""
    theirs = {row["path"]: row for row in other}
    taken = set(matched.values())
    order = [row["path"] for row in other]
    positions = {path: index for index, path in enumerate(order)}

    def list_added(start: int, end: int) -> Iterator[Row]:
        added = [theirs[path] for path in order[start:end] if path not in taken]
        return (_make_row(layer, None, layer, columns) for layer in added)

    next_position = 0
    for row in reference:
        match = matched.get(row["path"])
        if match is not None:
            yield from list_added(next_position, positions[match])
            next_position = max(next_position, positions[match] + 1)
        yield _make_row(row, row, None if match is None else theirs[match], columns)
    yield from list_added(next_position, len(order))


def _make_row(shown: Row, mine: Row | None, theirs: Row | None, columns: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "change": "same",
        "path": shown["path"],
        "other_path": theirs["path"] if theirs else None,
        "type": shown["type"],
        "other_type": theirs["type"] if theirs else None,
        "depth": shown["depth"],
        "is_leaf": shown["is_leaf"],
    }
    for column in columns:
        first, second = (None if side is None else side.get(column) for side in (mine, theirs))
        difference = None if first is None or second is None else second - first
        row |= {column: first, f"other_{column}": second, f"{column}_difference": difference}
        if difference:
            row["change"] = "changed"
    if mine is None or theirs is None:
        row["change"] = "added" if mine is None else "removed"
    return row
