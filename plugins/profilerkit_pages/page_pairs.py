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
#: Compared columns that are shown at first.
_COMPARED_AT_FIRST = ("params", "macs", "forward_seconds")


def describe_sides(comparison: Comparison, which: int) -> dict[str, Any] | None:
    """Return the layers of the reference and of the other model ``which`` in one tree; None if one has no layers."""
    reference, other = comparison.reference, comparison.others[which]
    if reference.layers is None or other.layers is None:
        return None
    rows = list(comparison.layers(which))
    nodes = list(_place_in_tree(rows))
    by_path, by_other_path = ({row["path"]: row for row in merge_rows(report)} for report in (reference, other))
    # A model that lacks a layer has no value of it.
    references = [{} if row["change"] == "added" else by_path[row["path"]] for row in rows]
    others = [{} if row["other_path"] is None else by_other_path[row["other_path"]] for row in rows]
    sides = _Side(reference.name, references), _Side(other.name, others)
    return {
        "name": visible(other.name),
        "parents": [node.parent for node in nodes],
        "names": pack([node.name for node in nodes]),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "changes": pack([row["change"] for row in rows]),
        "columns": [column for key in _COMPARED for column in _describe_values(key, *sides)],
    }


class _Side(NamedTuple):
    """A model: its name, and its layers in the rows of both models; an empty row if it lacks the layer."""

    name: str
    layers: Sequence[Row]

    def read(self, key: str) -> list[Any]:
        """Return a value of each layer; None if the layer has no value."""
        return [layer.get(key) for layer in self.layers]


class _Node(NamedTuple):
    """The place of a layer in the tree of both models.

    Attributes:
        parent: The index of the row around the layer; -1 for none.
        name: Its name: "conv1", or "conv1 / first" for a layer with the name "first" in the other model.
    """

    parent: int
    name: str


def _place_in_tree(rows: Sequence[Row]) -> Iterator[_Node]:
    """Yield the node of each layer.

    A layer of the reference is inside a layer of the reference. A layer that only the other model has is inside a layer
    of the other model, whose row both models may share.
    """
    in_reference = {row["path"]: index for index, row in enumerate(rows) if row["change"] != "added"}
    in_other = {row["other_path"]: index for index, row in enumerate(rows) if row["other_path"] is not None}
    around_reference, around_other = nearest_around(in_reference), nearest_around(in_other)
    for row in rows:
        path, other_path = row["path"], row["other_path"]
        if row["change"] == "added":  # it has the path of the other model alone
            around = around_other[path]
            parent = -1 if around is None else in_other[around]
        else:
            around = around_reference[path]
            parent = -1 if around is None else in_reference[around]
        name = write_layer_name(path, around)
        if other_path not in (None, path):
            name += f" / {visible(other_path.rpartition('.')[2])}"
        yield _Node(parent, name)


def _describe_values(key: str, reference: _Side, other: _Side) -> Iterator[ColumnData]:
    """Yield the columns of a value: of both models, and the change; nothing if a model lacks the value."""
    references, others = reference.read(key), other.read(key)
    if all(value is None for value in references) or all(value is None for value in others):
        return
    signs, other_signs = find_signs(key, reference.layers), find_signs(key, other.layers)
    changes = [None if None in pair else pair[1] - pair[0] for pair in zip(references, others, strict=True)]
    # If one of the two values is a bound, the change may be less or more.
    change_signs = {
        index: [Sign.BETWEEN, changes[index]] for index in signs | other_signs if changes[index] is not None
    }
    for suffix, label, columns in (
        ("", reference.name, describe_column(key, references, signs)),
        ("_other", other.name, describe_column(key, others, other_signs)),
        ("_difference", "change", describe_column(key, changes, change_signs)),
    ):
        for column in columns:
            yield {
                **column,
                "key": f"{key}{suffix}",
                "title": f"{column['title']}, {visible(label)}",
                "share": False,
                "shown": key in _COMPARED_AT_FIRST,
                "suffix": suffix,
                "dashes": suffix != "_difference",
            }
