"""The layers in which two models differ, for a comparison that shows a few of them beside the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..results.comparison import Comparison
from ..trace.alignment import find_difference, is_foreign
from ..trace.layer_paths import walk_outwards
from ..trace.layer_view import group_children
from .grids import Grid
from .layer_grids import difference_grid

__all__ = ["list_changed_layers", "measure_change"]

#: The change of a layer that one of two models lacks.
_IN_ONE = ("removed", "added")


def measure_change(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return by how many MACs and parameters a layer of two models differs; 0 for a number that one does not know."""
    macs, params = (abs(find_difference(row, key) or 0) for key in ("macs", "params"))
    return macs, params


def list_changed_layers(comparison: Comparison, most: int) -> Iterator[Grid]:
    """Yield a grid of the layers that differ most between two models, in the model's order, if any differ.

    Args:
        comparison: The comparison; a comparison of more models, or without layers, has no grid.
        most: The most layers.
    """
    if len(comparison.others) > 1 or any(report.layers is None for report in comparison.reports):
        return
    reference, other = comparison.reports
    layers = _find_changed_layers(comparison, most)
    counted = [row for row in layers if any(measure_change(row))] or layers  # others differ in FLOPs alone
    largest = sorted(counted, key=measure_change, reverse=True)[:most]
    in_one_only = [row for row in largest if row["change"] in _IN_ONE]
    is_unmatched = is_foreign(reference, other) and 2 * len(in_one_only) > len(largest)
    if largest and not is_unmatched:  # else one is nested, the other is flat: most of these are the same layers
        part = f", {len(largest)} of {len(counted)}" if len(largest) < len(counted) else ""
        title = f"Layers that differ between {reference.name} and {other.name}{part}"
        in_order = [row for row in layers if row in largest]
        yield difference_grid(in_order, title, (reference.name, other.name), nested=False)


def _find_changed_layers(comparison: Comparison, most: int) -> list[Mapping[str, Any]]:
    """Return the outermost of the layers that differ, in the order of the model.

    As long as there is room for ``most`` layers, the one that differs most gives way to the changed ones inside it.
    """
    sides = _leave_out_parts(comparison)
    inside = group_children([row for row in sides if row["change"] not in ("same", "unknown") or not row["path"]])

    def list_inside(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        is_in_both = row["change"] == "changed"  # else another layer of the same path may have layers inside
        return [child for child in inside.get(row["path"], ()) if is_in_both or child["change"] == row["change"]]

    layers = list(inside.get("", ()))
    while True:
        room = most - len(layers) + 1  # with the place of the layer that gives way
        replaceable = [row for row in layers if 0 < len(list_inside(row)) <= room]
        if not replaceable:
            return layers
        index = layers.index(max(replaceable, key=measure_change))
        layers[index : index + 1] = list_inside(layers[index])


def _leave_out_parts(comparison: Comparison) -> list[Mapping[str, Any]]:
    """Return the rows of both models without the parts of a layer that has none in the other: of a quantized one."""
    reference, other = ({row["path"]: row["is_leaf"] for row in report.layers or ()} for report in comparison.reports)
    rows = list(comparison.layers(0))
    pairs = [row for row in rows if row["path"] and row["change"] not in _IN_ONE]
    undivided = {
        "added": {row["other_path"] for row in pairs if reference[row["path"]]},
        "removed": {row["path"] for row in pairs if other[row["other_path"]]},
    }
    return [row for row in rows if undivided.get(row["change"], set()).isdisjoint(walk_outwards(row["path"]))]
