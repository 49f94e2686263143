"""The layers of a model with counts and times in one table, to read, rank and draw, and the groups of equal layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .columns import WORK
from .layer_paths import count_depth, nearest_around, walk_outwards
from .records import LayerTable
from .rows import divide_known

__all__ = ["PEAK", "find_shared_times", "group_children", "number_kinds", "with_times"]

#: The column with the bytes of each layer at the peak of memory; the table's other columns of bytes tell their use.
PEAK = "peak_bytes"
#: The columns that get a column with the share of the whole model, if the table lacks this column.
_SHARED = ("params", *WORK, "forward_seconds", "backward_seconds")
#: The columns in which equal layers have the same value.
_COUNTS = ("type", "params", *WORK, "calls", PEAK)


def with_times(layers: LayerTable | None, times: LayerTable | None) -> LayerTable:
    """Return the rows of the layers, each with the missing columns of the times; None if a layer was not timed.

    The table is ``layers`` itself if nothing is added. A layer that has only times comes last. These columns follow
    from the others: ``params_share`` and so on, of the row with the empty path; and if there are FLOPs and times,
    ``achieved_flops_per_second``, which is the FLOPs of the forward pass over its seconds, with the layers inside, and
    ``achieved_own_flops_per_second``, without them. They are None if a number is missing, if the divisor is zero, if a
    layer of a rate has no FLOPs, or, without the layers inside, if the time of the layer is not of its own work alone.
    """
    timed = {row["path"]: row for row in times or ()}
    columns = dict.fromkeys([*(layers[0] if layers else ()), *(times[0] if times else ())])
    rows = [{**columns, **timed.pop(row["path"], {}), **row} for row in layers or ()]
    rows += [{**columns, **row} for row in timed.values()]
    root = next((row for row in rows if not row["path"]), {})
    shared = find_shared_times(times or (), [row["path"] for row in rows if row.get("own_flops")])
    table = LayerTable(
        {**row, **_compute_shares(row, root), **_compute_rates(row, is_shared=row["path"] in shared)} for row in rows
    )
    if layers and len(table) == len(layers) and table.columns == layers.columns:
        return layers  # nothing was added
    return table


def find_shared_times(times: Iterable[Mapping[str, Any]], working: Iterable[str]) -> set[str]:
    """Return the layers whose measured time is not the time of their own work alone.

    An encoder of torch has a fast path that uses the weights of the layers inside and does not call them: its time
    includes their work, and they have no time.

    Args:
        times: The rows of layers that were timed; their calls are those of the timed passes.
        working: The paths of the layers that have work of their own.
    """
    calls = {row["path"]: row.get("calls") for row in times}
    shared: set[str] = set()
    for path in working:
        if calls.get(path) == 0:
            caller = next((outer for outer in walk_outwards(path) if calls.get(outer)), path)
            shared |= {path, caller}
    return shared


def _compute_shares(row: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the shares of the whole model that a row lacks, by column."""
    lacking = [name for name in _SHARED if name in row and f"{name}_share" not in row]
    return {f"{name}_share": divide_known(row[name], root.get(name)) for name in lacking}


def _compute_rates(row: Mapping[str, Any], *, is_shared: bool) -> dict[str, float | None]:
    """Return the FLOPs of the forward pass over its seconds, by column, as far as a row has both.

    If the time of the layer ``is_shared``, it is not the time of its own FLOPs.
    """
    # A training step has the FLOPs of both passes, and the FLOPs of the forward pass in another column.
    flops = "forward_flops" if "forward_flops" in row else "flops"
    rates = {}
    for part in ("", "own_"):
        work, seconds = f"{part}{flops}", f"{part}forward_seconds"
        if work in row and seconds in row:
            done = None if is_shared and part == "own_" else row[work] or None
            rates[f"achieved_{part}flops_per_second"] = divide_known(done, row[seconds])
    return rates


def group_children(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return by path the layers right inside each layer, the first row being the root.

    A layer whose outer layer is not among the rows counts for the nearest one around it that is.
    """
    around = nearest_around(row["path"] for row in rows)
    inside: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows[1:]:
        inside.setdefault(around[row["path"]] or "", []).append(row)
    return inside


def number_kinds(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return by path a number that equal layers share: of one type, with equal counts, and equal layers inside."""
    children = group_children(rows)
    numbers: dict[tuple[Any, ...], int] = {}
    kinds: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: -count_depth(row["path"])):  # the layers inside a layer before that layer
        path = row["path"]
        inside = tuple((child["path"][len(path) :], kinds[child["path"]]) for child in children.get(path, ()))
        counts = tuple(row.get(column) for column in _COUNTS)
        kinds[path] = numbers.setdefault((*counts, inside), len(numbers))
    return kinds
