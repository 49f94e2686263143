"""Any table as a grid: a heading for each column, and ten rows unless more are requested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..piping.quantity import Scale, format_number, scale_value
from ..times.layer_times import LayerTimeTable
from ..times.measurement import Measurement
from ..times.wording import noise_text
from ..trace.bounds import WORK
from ..trace.cost_parts import PEAK
from ..trace.depths import within_depth
from ..trace.layer_table import is_innermost
from .columns import Column, share_text, write_count
from .grids import Grid

if TYPE_CHECKING:
    from ..trace.table import Table

__all__ = [
    "ROWS",
    "Ranked",
    "describe_gap",
    "operator_grid",
    "rank_rows",
    "table_grid",
    "top_row_note",
    "write_ranked_title",
]

#: How many rows are shown unless another number is requested.
ROWS = 10
#: The columns that rows are ranked by, the first that a table has; and what the first row then is.
_RANKED = {
    "own_forward_seconds": "slowest",
    "seconds": "slowest",
    "predicted_seconds": "slowest",
    "own_macs": "one with the most MACs",
    "macs": "one with the most MACs",
    "own_peak_bytes": "largest at the peak",
    "params": "largest",
}
#: From which part of the model's time on it is said that the times of layers do not add up to it.
_GAP = 0.1
#: Noise of the slowest layer that is told beside its time: at half of it another may be slower.
_MUCH_NOISE = 0.2
#: The columns shown of a table of layers or operators, which can have dozens; ``to_pandas`` and files have them all.
_SHOWN = frozenset(
    (
        *("path", "operator", "layer", "kernel", "type", "phase", "calls", "count", "output_shapes"),
        *("params", *WORK, "forward_macs", "backward_macs"),
        *("column", "samples", "median", "std", "min", "max", "noise"),
        *("seconds", "own_seconds", "average_seconds", "share", "flops_per_second", "binds"),
        *("forward_seconds", "backward_seconds", "own_forward_seconds", "own_backward_seconds"),
    )
)
_LABELS = ("path", "operator", "layer", "kernel", "type")
#: What a table of statistics has of the samples of a row's ``column``, in the unit of that column.
_OF_SAMPLES = frozenset(("median", "mean", "std", "min", "max", "p90", "low", "high"))


class Ranked(NamedTuple):
    """Rows by rank, and the column that they are ranked by; an empty one where they stand as they were."""

    by: str
    rows: Sequence[Mapping[str, Any]]


def table_grid(title: str, table: Table, top: int | None = ROWS, depth: int | None = None) -> Grid:
    """Return a table as a grid.

    Args:
        title: What stands above it.
        table: The table. Columns without any value are left out.
        top: The most rows. Of a longer table those with the most of what it is ranked by are shown, without the layers
            around others; of a table that is not ranked, the first ones. None shows all.
        depth: The deepest layers to show; None and -1 for those at any depth.
    """
    rows = within_depth(table, depth)
    total, is_whole = len(rows), top is None or len(rows) <= top
    if not is_whole:
        ranked = rank_rows(rows)
        rows = list(ranked.rows[:top])
        title = write_ranked_title(title, ranked, len(rows), total)
    columns = [name for name in _choose_columns(table) if any(_has(row[name]) for row in rows)]
    columns += ["missing"] if any(row.get("missing") for row in rows) else []
    nested = is_whole and "path" in columns and "depth" in table.columns and not rows[0]["path"]
    drawn = tuple(tuple(_write_cell(row, name, nested) for name in columns) for row in rows)
    numeric = frozenset(index for index, name in enumerate(columns) if _is_numeric(rows, name))
    depths = tuple(row["depth"] for row in rows) if nested else ()
    return Grid(title, tuple(_write_heading(name) for name in columns), drawn, numeric, depths, kind="layers")


def operator_grid(title: str, table: Table, top: int) -> Grid:
    """Return the slowest rows of a table of operators, one that was saved and read again too."""
    rows = tuple(
        (
            row["operator"],
            row["layer"] or "(model)",
            row["phase"],
            str(row["calls"]),
            str(scale_value(row["seconds"], "s", Scale.TIME)),
            f"{row['share']:.1%}",
            write_count(row["macs"]),
            write_count(row["flops_per_second"]),
        )
        for row in list(table)[:top]
    )
    titles = ("Operator", "Layer", "Phase", "Calls", "Time", "Share", "MACs", "FLOP/s")
    more = f", the slowest {top} of {len(table)}" if len(table) > top else ""
    return Grid(f"{title}{more}", titles, rows, frozenset(range(3, 8)), kind="operators")


def top_row_note(table: Table) -> str:
    """Return what stands first in a ranked table, in words: "the slowest of 217 layers is conv1 (Conv2d), 3.1 ms".

    The slowest layer is the one with the most own forward time, as in every ranking. The one with the most own backward
    time stands behind it where there is such a time.
    """
    ranked = rank_rows(table)
    if not ranked.by or not ranked.rows[0][ranked.by]:
        return ""
    things = "layers" if "path" in ranked.rows[0] else "rows"
    first = f"the {_RANKED[ranked.by]} of {len(table)} {things} is {_write_top_row(table, ranked)}"
    backward = rank_rows(table, ranked.by.replace("forward", "backward"))
    if backward.by in ("", ranked.by) or not backward.rows[0][backward.by]:
        return first
    return f"{first} of its own forward; backward it is {_write_top_row(table, backward)}"


def describe_gap(table: Table) -> str:
    """Say how much of the model's time the own times of its layers add up to, where that is far from all of it.

    Each is the median of its own samples, and so they do not add up exactly: where much is missing, times are noisy.
    """
    whole = next((row.get("forward_seconds") for row in table if row.get("path") == ""), None)
    if not whole or any(row.get("own_forward_seconds") is None for row in table):
        return ""
    share = sum(row["own_forward_seconds"] for row in table) / whole
    if abs(share - 1) < _GAP:
        return ""
    return (
        f"noisy: the own times of layers, a median each, add up to {share_text(share)} of the model's; measure longer"
    )


def _write_top_row(table: Table, ranked: Ranked) -> str:
    """Return the first of ranked rows with its value, and the share of the whole model where that is known."""
    row, by = ranked.rows[0], ranked.by
    label = next((str(row[name]) for name in _LABELS if row.get(name)), "the model itself")
    where = f" in {row['layer']}" if "operator" in row and row.get("layer") else ""
    kind = f" ({row['type']})" if row.get("path") and row.get("type") else ""
    root = next((one for one in table if one.get("path") == ""), {})
    whole = root.get(by.removeprefix("own_")) if by.startswith("own_") else None
    share = f" ({share_text(row[by] / whole)})" if whole else ""
    return f"{label}{where}{kind}, {Column.of(by).show(row[by])}{_write_large_noise(table, row, by)}{share}"


def _write_large_noise(table: Table, row: Mapping[str, Any], by: str) -> str:
    """Return how far the time of a layer may be off, where that is much: then another layer may be the slowest."""
    if not isinstance(table, LayerTimeTable):
        return ""
    noise = table.measurement(row["path"], by).noise
    return f" {noise_text(noise, 0)}" if noise > _MUCH_NOISE else ""


def _choose_columns(table: Table) -> list[str]:
    """Return the columns to show: all of a small table, of layers and operators those that people look for."""
    is_known = not {"path", "operator"}.isdisjoint(table.columns)
    if not is_known:
        return [name for name in table.columns if name != "missing"]
    has_peak = PEAK in table.columns
    of_peak = {name for name in table.columns if has_peak and name.endswith("_bytes") and not name.startswith("own_")}
    return [name for name in table.columns if name in _SHOWN | of_peak]


def rank_rows(rows: Iterable[Mapping[str, Any]], by: str = "") -> Ranked:
    """Return rows by rank, those with most first; as they are where no column ranks them.

    Of layers that are ranked by a column with the layers inside, those around others are left out.

    Args:
        rows: The rows of a table.
        by: The column; by default the first by which such tables are ranked.
    """
    listed = list(rows)
    by = by or _find_ranking(listed)
    if not by or by not in listed[0]:
        return Ranked("", listed)
    inner = [row for row in listed if by.startswith("own_") or is_innermost(row, by)]
    return Ranked(by, sorted(inner, key=lambda row: -(row[by] or 0)))


def write_ranked_title(title: str, ranked: Ranked, shown: int, total: int) -> str:
    """Return a title that says which rows of a table are shown."""
    if not ranked.by:
        return f"{title}, the first {shown} of {total}"
    return f"{title}, the {shown} of {total} with the most {Column.of(ranked.by).in_a_sentence}"


def _find_ranking(rows: Sequence[Mapping[str, Any]]) -> str:
    first = rows[0] if rows else {}
    return next((name for name in _RANKED if name in first and any(row[name] for row in rows)), "")


def _has(value: Any) -> bool:
    return value is not None and value != "" and value != () and value != {}


def _is_numeric(rows: Iterable[Mapping[str, Any]], name: str) -> bool:
    values = [row[name] for row in rows if row[name] is not None]
    return bool(values) and all(isinstance(value, (int, float, Measurement)) for value in values)


def _write_heading(name: str) -> str:
    return {"path": "Layer", "type": "Type"}.get(name) or Column.of(name).title


def _find_column(row: Mapping[str, Any], name: str) -> Column:
    """Return the column whose unit a cell has: that of its title, or the one that the row names."""
    if name == "value" and "by" in row:
        return Column.of(str(row["by"]))
    return Column.of(str(row["column"])) if name in _OF_SAMPLES and "column" in row else Column.of(name)


def _write_cell(row: Mapping[str, Any], name: str, nested: bool) -> str:
    value = row[name]
    if name == "path":
        return (value.rpartition(".")[2] if nested else value) or "(model)"
    if name == "by" or (name == "column" and isinstance(value, str)):
        return Column.of(value).title
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, Measurement):
        return Column.of(name).show(value.median)
    if isinstance(value, (int, float)):
        if name == "share" or (name == "noise" and "column" in row):
            return share_text(value)
        return _find_column(row, name).show(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {format_number(content)}" for key, content in value.items())
    if isinstance(value, (tuple, list)):
        return ", ".join(str(list(item)) if isinstance(item, (tuple, list)) else str(item) for item in value)
    return str(value)
