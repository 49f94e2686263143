"""The layers of two models in one tree, with the values of both side by side and their difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from profilerkit.foreign_text import visible
from profilerkit.trace.bounds import Sign
from profilerkit.trace.layer_paths import nearest_around

from .columns import Row, describe_column, find_signs
from .layer_tree import merge_rows, write_layer_name
from .page_parts import pack
from .page_records import ColumnData

if TYPE_CHECKING:
    from profilerkit.results.comparison import Comparison

__all__ = ["describe_sides"]

#: Columns in which the layers of two models are compared.
_COMPARED = ("params", "macs", "flops", "own_macs", "own_flops", "forward_seconds", "backward_seconds")
#: Those that are shown at first.
_COMPARED_AT_FIRST = ("params", "macs", "forward_seconds")


def describe_sides(comparison: Comparison, which: int) -> dict[str, Any] | None:
    """Return the layers of the reference and of the other model of that index in one tree; None where one has none."""
    reference, other = comparison.reference, comparison.others[which]
    if reference.layers is None or other.layers is None:
        return None
    rows = list(comparison.layers(which))
    nodes = list(_place_in_tree(rows))
    reference_rows = {row["path"]: row for row in merge_rows(reference)}
    other_rows = {row["path"]: row for row in merge_rows(other)}
    layers = [
        _BothSides(
            None if row["change"] == "added" else reference_rows[row["path"]],
            None if row["other_path"] is None else other_rows[row["other_path"]],
        )
        for row in rows
    ]
    names = (reference.name, other.name)
    return {
        "name": visible(other.name),
        "parents": [node.parent for node in nodes],
        "names": pack([node.name for node in nodes]),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "changes": pack([row["change"] for row in rows]),
        "columns": [column for key in _COMPARED for column in _describe_values(key, layers, names)],
    }


class _BothSides(NamedTuple):
    """The rows of a layer in the reference and in the other model; None in the model that lacks it."""

    reference: Row | None
    other: Row | None

    def read(self, key: str) -> tuple[Any, Any]:
        """Return a value of the layer in both models; None where it has none."""
        return (
            None if self.reference is None else self.reference.get(key),
            None if self.other is None else self.other.get(key),
        )


class _Node(NamedTuple):
    """Where a layer stands in the tree of both models.

    Attributes:
        parent: The index of the row around it; -1 for none.
        name: What it is called: "conv1", or "conv1 / first" for a layer that is called "first" in the other model.
    """

    parent: int
    name: str


def _place_in_tree(rows: Sequence[Row]) -> Iterator[_Node]:
    """Yield the node of each layer.

    A layer of the reference is inside of a layer of the reference. One that only the other model has is inside of a
    layer of the other model, whose row may be one that both have.
    """
    in_reference = {row["path"]: index for index, row in enumerate(rows) if row["change"] != "added"}
    in_other = {row["other_path"]: index for index, row in enumerate(rows) if row["other_path"] is not None}
    around_reference, around_other = nearest_around(in_reference), nearest_around(in_other)
    for row in rows:
        path, other_path, is_added = row["path"], row["other_path"], row["change"] == "added"
        indices, paths_around = (in_other, around_other) if is_added else (in_reference, around_reference)
        around = paths_around[path]
        name = write_layer_name(path, around)
        if other_path not in (None, path):  # what only the other model has has one path
            name += f" / {visible(other_path.rpartition('.')[2])}"
        yield _Node(-1 if around is None else indices[around], name)


def _describe_values(key: str, layers: Sequence[_BothSides], names: tuple[str, str]) -> Iterator[ColumnData]:
    """Yield the columns of one value: of both models, and the change; nothing where one lacks it."""
    pairs = [layer.read(key) for layer in layers]
    references, others = [reference for reference, _ in pairs], [other for _, other in pairs]
    if all(value is None for value in references) or all(value is None for value in others):
        return
    changes = [None if reference is None or other is None else other - reference for reference, other in pairs]
    signs = find_signs(key, [layer.reference or {} for layer in layers])
    other_signs = find_signs(key, [layer.other or {} for layer in layers])
    # Where one of the two is a bound, the change may be less or more.
    change_signs = {
        index: [Sign.BETWEEN, changes[index]] for index in signs | other_signs if changes[index] is not None
    }
    reference_name, other_name = names
    for suffix, values, label, signed in (
        ("", references, reference_name, signs),
        ("_other", others, other_name, other_signs),
        ("_difference", changes, "change", change_signs),
    ):
        for column in describe_column(key, values, signed):
            yield {
                **column,
                "key": f"{key}{suffix}",
                "title": f"{column['title']}, {visible(label)}",
                "share": False,
                "shown": key in _COMPARED_AT_FIRST,
                "suffix": suffix,
                "dashes": suffix != "_difference",
            }
