"""The layers in which two models differ, for a comparison that shows a few of them beside the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..results.comparison import Comparison
from ..trace.alignment import find_difference, is_foreign
from ..trace.layer_paths import walk_outwards
from ..trace.layer_view import group_children
from .grids import Grid
from .layer_grids import difference_grid

__all__ = ["list_changed_layers", "measure_change"]

Row: TypeAlias = Mapping[str, Any]

#: The change of a layer that one of two models lacks.
_IN_ONE = ("removed", "added")


def measure_change(row: Row) -> tuple[float, float]:
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
    layers = _find_changed_layers(comparison, most)
    counted = [row for row in layers if any(measure_change(row))] or layers  # others differ in FLOPs alone
    largest = sorted(counted, key=measure_change, reverse=True)[:most]
    if not largest or _are_unmatched(comparison, largest):
        return
    names = (comparison.reference.name, comparison.others[0].name)
    part = f", {len(largest)} of {len(counted)}" if len(largest) < len(counted) else ""
    title = f"Layers that differ between {' and '.join(names)}{part}"
    yield difference_grid([row for row in layers if row in largest], title, names, nested=False)


def _are_unmatched(comparison: Comparison, rows: Sequence[Row]) -> bool:
    """Return whether most rows are the same layers, by other names: one backend nests them, the other has them flat."""
    in_one = [row for row in rows if row["change"] in _IN_ONE]
    return is_foreign(comparison.reference, comparison.others[0]) and 2 * len(in_one) > len(rows)


def _find_changed_layers(comparison: Comparison, most: int) -> list[Row]:
    """Return the outermost of the layers that differ, in the order of the model.

    As long as there is room for ``most`` layers, the one that differs most gives way to the changed ones inside it.
    """
    rows = [
        row for row in _leave_out_inner_parts(comparison) if row["change"] not in ("same", "unknown") or not row["path"]
    ]
    inside = group_children(rows)
    layers = list(inside.get("", ()))
    while (opened := _choose_opened(layers, inside, room=most - len(layers) + 1)) is not None:
        index = layers.index(opened)
        layers[index : index + 1] = _list_inside(opened, inside)
    return layers


def _choose_opened(layers: Sequence[Row], inside: Mapping[str, Sequence[Row]], room: int) -> Row | None:
    """Return the layer that differs most, of those with changed layers inside that fit in so many lines."""
    fitting = [layer for layer in layers if 0 < len(_list_inside(layer, inside)) <= room]
    return max(fitting, key=measure_change, default=None)


def _list_inside(row: Row, inside: Mapping[str, Sequence[Row]]) -> list[Row]:
    """Return the changed layers right inside a layer, in whose place they may be shown.

    ``inside`` has the layers of both models by path. Inside a layer of one model are those of that model. There are
    none if both models have one of them: shown alone, the others would be called all that has changed there.
    """
    children = inside.get(row["path"], ())
    if row["change"] not in _IN_ONE:
        return list(children)
    if any(child["change"] not in _IN_ONE for child in children):
        return []
    return [child for child in children if child["change"] == row["change"]]


def _leave_out_inner_parts(comparison: Comparison) -> list[Row]:
    """Return the rows of both models, without the layers inside a layer that holds none in the other model.

    They are parts of that one layer: a quantized layer holds its packed weights, which were not added to the model.
    """
    leaves, other_leaves = (
        {row["path"] for row in report.layers or () if row["is_leaf"]} for report in comparison.reports
    )
    rows = list(comparison.layers(0))
    pairs = [row for row in rows if row["path"] and row["change"] not in _IN_ONE]
    undivided = {
        "added": {row["other_path"] for row in pairs if row["path"] in leaves},
        "removed": {row["path"] for row in pairs if row["other_path"] in other_leaves},
    }
    return [row for row in rows if undivided.get(row["change"], set()).isdisjoint(walk_outwards(row["path"]))]
