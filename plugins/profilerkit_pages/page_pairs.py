"""The layers of two models in one tree, with the values of both side by side and their difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from profilerkit.foreign_text import visible
from profilerkit.render.values import write_row_value
from profilerkit.results.comparison import Comparison
from profilerkit.trace.layer_paths import nearest_around

from .columns import Row, describe_columns
from .layer_tree import merge_rows, write_layer_name
from .page_parts import pack
from .page_records import ColumnData

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
    references: list[Row] = [{} if row["change"] == "added" else by_path[row["path"]] for row in rows]
    others: list[Row] = [{} if row["other_path"] is None else by_other_path[row["other_path"]] for row in rows]
    names = reference.name, other.name
    return {
        "name": visible(other.name),
        "parents": [parent for parent, _ in nodes],
        "names": pack([name for _, name in nodes]),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "changes": pack([row["change"] for row in rows]),
        "columns": [column for key in _COMPARED for column in _describe_values(key, names, references, others)],
    }


def _place_in_tree(rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
    """Yield for each layer of both models the index of the row around it, -1 for none, and its name in their tree.

    A layer of the reference is inside a layer of the reference. A layer that only the other model has is inside a layer
    of the other model, whose row both models may share. A layer with the name "first" in the other model is
    "conv1 / first".
    """
    in_reference = _find_outer({row["path"]: index for index, row in enumerate(rows) if row["change"] != "added"})
    in_other = _find_outer(
        {row["other_path"]: index for index, row in enumerate(rows) if row["other_path"] is not None}
    )
    for row in rows:
        path, other_path = row["path"], row["other_path"]  # equal for a layer that only the other model has
        parent, outer = in_other[path] if row["change"] == "added" else in_reference[path]
        name = write_layer_name(path, outer)
        if other_path not in (None, path):
            name += f" / {visible(other_path.rpartition('.')[2])}"
        yield parent, name


def _find_outer(places: Mapping[str, int]) -> dict[str, tuple[int, str | None]]:
    """Return for each layer of a model the place and the path of the layer around it; -1 and None for none."""
    return {path: (-1 if outer is None else places[outer], outer) for path, outer in nearest_around(places).items()}


def _describe_values(
    key: str, names: Sequence[str], references: Sequence[Row], others: Sequence[Row]
) -> Iterator[ColumnData]:
    """Yield the columns of a value: of both models, and the change; nothing if a model lacks the value."""
    if any(all(layer.get(key) is None for layer in layers) for layers in (references, others)):
        return
    changes = [_subtract(key, *pair) for pair in zip(references, others, strict=True)]
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
