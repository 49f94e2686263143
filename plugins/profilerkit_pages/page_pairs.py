"""The layers of two models in one tree, with the values of both side by side and their difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.render.grids import visible
from profilerkit.trace.layer_paths import nearest_around

from .page_columns import describe_column
from .page_layers import Row, merge_rows, write_layer_name
from .page_parts import pack

if TYPE_CHECKING:
    from profilerkit.results.comparison import Comparison

__all__ = ["describe_sides"]

#: Columns in which the layers of two models are compared, and those that are shown at first.
_COMPARED = ("params", "macs", "flops", "own_macs", "own_flops", "forward_seconds", "backward_seconds")
_COMPARED_AT_FIRST = ("params", "macs", "forward_seconds")


def describe_sides(comparison: Comparison, which: int) -> dict[str, Any] | None:
    """Return the layers of the reference and of another model in one tree, or None where one has no layers."""
    reference, other = comparison.reference, comparison.others[which]
    if reference.layers is None or other.layers is None:
        return None
    rows = list(comparison.layers(which))
    parents, names = _place_in_tree(rows)
    reference_rows, other_rows = ({row["path"]: row for row in merge_rows(report)} for report in (reference, other))
    columns: list[dict[str, Any]] = []
    for key in _COMPARED:
        first = [None if row["change"] == "added" else reference_rows[row["path"]].get(key) for row in rows]
        second = [other_rows[row["other_path"]].get(key) if row["other_path"] is not None else None for row in rows]
        columns += _describe_pair(key, first, second, (reference.name, other.name))
    return {
        "name": visible(other.name),
        "parents": parents,
        "names": pack(names),
        "types": pack([visible(str(row["type"])) for row in rows]),
        "changes": pack([row["change"] for row in rows]),
        "columns": columns,
    }


def _place_in_tree(rows: Sequence[Row]) -> tuple[list[int], list[str]]:
    """Return of each layer of two models the row around it, -1 for none, and its name, with that in the other model.

    A layer that the other model alone has lies in a layer of the other, all others in one of the reference.
    """
    in_reference = {row["path"]: index for index, row in enumerate(rows) if row["change"] != "added"}
    in_other = {row["other_path"]: index for index, row in enumerate(rows) if row["other_path"] is not None}
    around_reference, around_other = nearest_around(in_reference), nearest_around(in_other)
    parents, names = [], []
    for row in rows:
        is_added = row["change"] == "added"
        around = (around_other if is_added else around_reference)[row["path"]]
        parents.append(-1 if around is None else (in_other if is_added else in_reference)[around])
        name = write_layer_name(row["path"], around)
        has_moved = not is_added and row["other_path"] not in (None, row["path"])
        names.append(f"{name} / {visible(row['other_path'].rpartition('.')[2])}" if has_moved else name)
    return parents, names


def _describe_pair(
    key: str, first: Sequence[Any], second: Sequence[Any], names: tuple[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the columns of one value of two models, and of their difference."""
    if all(value is None for value in first) or all(value is None for value in second):
        return
    differences = [None if one is None or two is None else two - one for one, two in zip(first, second, strict=True)]
    for suffix, values, label in (
        ("", first, names[0]),
        ("_other", second, names[1]),
        ("_difference", differences, "change"),
    ):
        for column in describe_column(key, values):
            shown = key in _COMPARED_AT_FIRST
            title = f"{column['title']}, {visible(label)}"
            more = {"title": title, "share": False, "shown": shown, "suffix": suffix, "dashes": suffix != "_difference"}
            yield {**column, "key": f"{key}{suffix}", **more}
