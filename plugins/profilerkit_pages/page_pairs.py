"""The layers of two models in one tree, with the values of both side by side and their difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from profilerkit.foreign_text import visible
from profilerkit.render.values import write_row_value
from profilerkit.results.comparison import Comparison
from profilerkit.trace.layer_paths import nearest_around

from .columns import Row, describe_columns
from .layer_tree import merge_rows, write_layer_name
from .page_parts import pack

#: Columns in which the layers of two models are compared.
_COMPARED = ("params", "macs", "flops", "own_macs", "own_flops", "forward_seconds", "backward_seconds")
#: Compared columns that are shown at first.
_COMPARED_AT_FIRST = ("params", "macs", "forward_seconds")


class _Outer(NamedTuple):
    """The layer around another one in the tree of both models: the number of its row, -1 for none, and its path."""

    row: int
    path: str | None


def describe_sides(comparison: Comparison, which: int) -> dict[str, Any] | None:
    """Return the layers of the reference and of the other model ``which`` in one tree; None if one has no layers."""
    reference, other = comparison.reference, comparison.others[which]
    if reference.layers is None or other.layers is None:
        return None
    rows = list(comparison.layers(which))
    outer = _find_outer_rows(rows)
    by_path, by_other_path = ({row["path"]: row for row in merge_rows(report)} for report in (reference, other))
    pairs = [read_pair(row, by_path, by_other_path) for row in rows]
    names = reference.name, other.name
    return {
        "name": visible(other.name),
        "parents": [around.row for around in outer],
        "names": pack([_write_name(row, around.path) for row, around in zip(rows, outer, strict=True)]),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "changes": pack([row["change"] for row in rows]),
        "columns": [column for key in _COMPARED for column in _describe_values(key, names, pairs)],
    }


def read_pair(row: Row, references: Mapping[str, Row], others: Mapping[str, Row]) -> tuple[Row, Row]:
    """Return the layer in the reference and in the other model that a row has; an empty one if a model lacks it.

    ``references`` and ``others`` are the layers of the two models by their paths.
    """
    reference: Row = {} if row["change"] == "added" else references[row["path"]]
    other: Row = {} if row["other_path"] is None else others[row["other_path"]]
    return reference, other


def _find_outer_rows(rows: Sequence[Row]) -> list[_Outer]:
    """Return for each layer of both models the row around it in their tree.

    A layer of the reference is inside a layer of the reference. A layer that only the other model has is inside a layer
    of the other model, whose row both models may share.
    """
    in_reference = _find_outer({row["path"]: index for index, row in enumerate(rows) if row["change"] != "added"})
    others = {row["other_path"]: index for index, row in enumerate(rows) if row["other_path"] is not None}
    in_other = _find_outer(others)
    return [(in_other if row["change"] == "added" else in_reference)[row["path"]] for row in rows]


def _find_outer(places: Mapping[str, int]) -> dict[str, _Outer]:
    """Return the layer around each layer of a model; ``places`` are the places of its layers by their paths."""
    nearest = nearest_around(places)
    return {path: _Outer(-1 if outer is None else places[outer], outer) for path, outer in nearest.items()}


def _write_name(row: Row, outer: str | None) -> str:
    """Return the name of a layer; "conv1 / first" for one that has the name "first" in the other model."""
    name, other_path = write_layer_name(row["path"], outer), row["other_path"]
    return name if other_path in (None, row["path"]) else f"{name} / {visible(other_path.rpartition('.')[2])}"


def _describe_values(key: str, names: Sequence[str], pairs: Sequence[tuple[Row, Row]]) -> Iterator[dict[str, Any]]:
    """Yield the columns of a value: of both models, and the change; nothing if a model lacks the value."""
    references, others = [reference for reference, _ in pairs], [other for _, other in pairs]
    if any(all(layer.get(key) is None for layer in layers) for layers in (references, others)):
        return
    changes = [_subtract(key, *pair) for pair in pairs]
    columns = (("", names[0], references), ("_other", names[1], others), ("_difference", "change", changes))
    for suffix, label, layers in columns:
        for column in describe_columns([key], layers):
            yield {
                **column,
                "key": f"{key}{suffix}",
                "title": f"{column['title']}, {visible(label)}",
                "share": False,
                "shown": key in _COMPARED_AT_FIRST,
                "suffix": suffix,
                "dashes": suffix != "_difference",
            }


def _subtract(key: str, reference: Row, other: Row) -> Row:
    """Return a row with the change of a value; with ends that are not known if one of the two values is a bound."""
    before, after = reference.get(key), other.get(key)
    if before is None or after is None:
        return {}
    change = {key: after - before}
    is_bound = any(write_row_value(layer, key)[0] for layer in (reference, other))
    return change | dict.fromkeys((f"{key}_low", f"{key}_high")) if is_bound else change
