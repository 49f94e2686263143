"""The layers of a model, of two, and of several as grids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..piping.quantity import Scale, scale_value
from ..piping.titles import write_title
from ..trace.depths import within_depth
from ..trace.records import LayerTable
from .bounds import write_row_value
from .columns import Column, write_count
from .grids import Grid, visible

if TYPE_CHECKING:
    from ..results.comparison import Comparison

__all__ = ["all_layers_grids", "difference_grid", "layer_grid", "seconds_grid"]

#: The columns of `Report.layerwise` that stand beside the counts where layers were timed, and what they are called.
_TIMED = {
    "forward_seconds": "Forward",
    "forward_seconds_share": "Share of\nforward",
    "backward_seconds": "Backward",
    "backward_seconds_share": "Share of\nbackward",
    "achieved_flops_per_second": "Achieved",
}
#: What is shown of the layers of several models, a grid each.
_ALL_MODELS = {
    "params": "Parameters by layer",
    "macs": "MACs by layer",
    "flops": "FLOPs by layer",
}


def layer_grid(layers: LayerTable, title: str = "Layers", *, nested: bool = True) -> Grid:
    """Return the per-layer table: counts and times with the layers inside included, and what follows from the two.

    ``nested`` shows names inside their parents'; without it whole paths are shown.
    """
    timed = [name for name in _TIMED if layers and name in layers[0]]
    rows = []
    for row in layers:
        label = row["path"].rpartition(".")[2] if nested else row["path"]
        shapes = ", ".join(str(list(shape)) for shape in row.get("output_shapes") or ())
        counts = [
            sign + write_count(value)
            for sign, value in (write_row_value(row, name) for name in ("params", "macs", "flops"))
        ]
        counts += [Column.of(name).show(row[name]) or "-" for name in timed]
        rows.append((label or "(model)", row["type"], shapes, str(row["calls"]) if row["calls"] else "-", *counts))
    titles = ("Layer", "Type", "Output shape", "Calls", "Params", "MACs", "FLOPs", *(_TIMED[name] for name in timed))
    depths = tuple(row["depth"] for row in layers) if nested else ()
    return Grid(title, titles, tuple(rows), frozenset(range(3, len(titles))), depths, kind="layers")


def difference_grid(
    rows: Sequence[Mapping[str, Any]], title: str, names: tuple[str, str], *, nested: bool = True
) -> Grid:
    """Return layers side by side: parameters and MACs in both models, and what became of the layer."""
    drawn = []
    for row in rows:
        path, other = row["path"], row["other_path"]
        label = (path.rpartition(".")[2] if nested else path) or "(model)"
        if other not in (None, path):
            label = f"{label} / {(other.rpartition('.')[2] if nested else other) or '(model)'}"
        counts = [_write_side(row[f"{side}{column}"]) for column in ("params", "macs") for side in ("", "other_")]
        kind = row["type"] if row["other_type"] in (None, row["type"]) else f"{row['type']} / {row['other_type']}"
        drawn.append((label, kind, *counts, _change(row)))
    columns = [f"{column}\n{visible(name)}" for column in ("Params", "MACs") for name in names]
    depths = tuple(row["depth"] for row in rows) if nested else ()
    titles = ("Layer", "Type", *columns, "Change")
    return Grid(title, titles, tuple(drawn), frozenset({2, 3, 4, 5}), depths, kind="layers")


def _change(row: Mapping[str, Any]) -> str:
    """Say what became of a layer; of one that differs in FLOPs alone, which have no column, how."""
    if row["change"] != "changed" or row["params_difference"] or row["macs_difference"]:
        return str(row["change"])
    return f"FLOPs {write_count(row['flops'])} to {write_count(row['other_flops'])}"


def seconds_grid(title: str, layers: LayerTable) -> Grid:
    """Return a per-layer table of seconds: a column for each of its own, what binds them, and what rows leave out."""
    columns = [name for name in (layers[0] if layers else {}) if name.endswith("_seconds")]
    titles = ["Layer", "Type", "Calls", *(write_title(name.removesuffix("_seconds")) for name in columns)]
    missing = any(row.get("missing") for row in layers)
    binds = any(row.get("binds") for row in layers)
    rows = []
    for row in layers:
        cells = ["-" if row[name] is None else str(scale_value(row[name], "s", Scale.TIME)) for name in columns]
        label = row["path"].rpartition(".")[2] or "(model)"
        words = [*([row["binds"]] if binds else []), *([row["missing"]] if missing else [])]
        rows.append((label, row["type"], str(row.get("calls", "-")), *cells, *words))
    numeric = frozenset(range(2, len(titles)))
    depths = tuple(row["depth"] for row in layers)
    titles += [*(["Bound by"] if binds else []), *(["Left out"] if missing else [])]
    return Grid(title, tuple(titles), tuple(rows), numeric, depths, kind="layers")


def all_layers_grids(comparison: Comparison, depth: int | None = None) -> Iterator[Grid]:
    """Yield the layers of all models side by side: their parameters, MACs and FLOPs, each with the layers inside.

    An empty cell is a layer that the model lacks, a hyphen one that has none of what is counted.
    """
    names = [report.name for report in comparison.reports]
    rows = within_depth(comparison.all_layers(*_ALL_MODELS), depth)
    for column, title in _ALL_MODELS.items():
        drawn = tuple(
            (
                row["path"].rpartition(".")[2] or "(model)",
                row["type"],
                *(_write_side(row[f"{column} of {name}"]) for name in names),
            )
            for row in rows
        )
        titles = ("Layer", "Type", *map(visible, names))
        numeric = frozenset(range(2, len(titles)))
        yield Grid(title, titles, drawn, numeric, tuple(row["depth"] for row in rows), kind="layers")


def _write_side(value: int | None) -> str:
    """Return a count of one of several models; nothing for a layer that it lacks."""
    return "" if value is None else write_count(value)
