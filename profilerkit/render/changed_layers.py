"""The layers in which two models differ, for a comparison that shows a few of them beside the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..trace.alignment import is_foreign
from ..trace.layer_view import group_children
from ..trace.table import Table
from .grids import Grid
from .layer_grids import difference_grid

if TYPE_CHECKING:
    from ..results.comparison import Comparison

__all__ = ["list_changed_layers", "measure_change"]


def measure_change(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return by how many MACs and parameters a layer of two models differs."""
    macs, params = (abs((row[f"other_{key}"] or 0) - (row[key] or 0)) for key in ("macs", "params"))
    return macs, params


def list_changed_layers(comparison: Comparison, most: int) -> Iterator[Grid]:
    """Yield a grid of the layers in which two models differ, if they do: those that differ most, in the model's order.

    Args:
        comparison: The comparison; one of more models, or without layers, has no such grid.
        most: The most layers.
    """
    if len(comparison.others) > 1 or any(report.layers is None for report in comparison.reports):
        return
    reference, other = comparison.reports
    layers = _find_changed_layers(comparison.layers(0), most)
    counted = [row for row in layers if any(measure_change(row))] or layers  # others differ in FLOPs alone
    largest = sorted(counted, key=measure_change, reverse=True)[:most]
    in_one_only = [row for row in largest if row["change"] in ("removed", "added")]
    if is_foreign(reference, other) and 2 * len(in_one_only) > len(largest):
        return  # one is nested, the other is flat: most of these are the same layers
    if largest:
        in_order = [row for row in layers if row in largest]
        part = f", {len(largest)} of {len(counted)}" if len(largest) < len(counted) else ""
        title = f"Layers that differ between {reference.name} and {other.name}{part}"
        yield difference_grid(in_order, title, (reference.name, other.name), nested=False)


def _find_changed_layers(sides: Table, most: int) -> list[Mapping[str, Any]]:
    """Return the outermost of the layers that differ, in the order of the model.

    As long as there is room for ``most`` layers, the one that differs most gives way to the changed ones inside it.
    """
    inside = group_children([row for row in sides if row["change"] != "same" or not row["path"]])
    layers = list(inside.get("", ()))
    while True:
        room = most - len(layers) + 1  # with the place of the layer that gives way
        replaceable = [row for row in layers if 0 < len(inside.get(row["path"], ())) <= room]
        if not replaceable:
            return layers
        index = layers.index(max(replaceable, key=measure_change))
        layers[index : index + 1] = inside[layers[index]["path"]]
