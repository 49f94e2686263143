"""Which layers are responsible for the value of a metric: those that cost most, or that grew most."""

from __future__ import annotations

from typing import NamedTuple

from profilerkit.piping.quantity import Scale, format_number, scale_value
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report
from profilerkit.trace.records import LayerTable

__all__ = ["COLUMNS", "UNITS", "list_responsible"]


class Unit(NamedTuple):
    """The unit of a column, and its prefixes."""

    name: str
    scale: Scale


#: The column of the layer table that a metric is the sum of.
COLUMNS = {
    "macs": "macs",
    "flops": "flops",
    "total_params": "params",
    "trainable_params": "params",
    "model_size": "params",
}
#: The units of these columns.
UNITS = {"params": Unit("", Scale.SI), "macs": Unit("MACs", Scale.SI), "flops": Unit("FLOPs", Scale.SI)}
#: How many layers are named.
_NAMED = 3


def list_responsible(report: Report, key: str, baseline: Report | None) -> tuple[str, ...]:
    """Return the layers that cost most of a metric, or that grew most beside the baseline, a text for each.

    There are none for a metric that no table of the report divides among layers.
    """
    if key == "memory_footprint":
        return _describe_peak(report)
    times = report.statuses.get("layer_times")
    if key in ("execution_time", "throughput") and times is not None and isinstance(times.value, LayerTable):
        return _list_costliest(times.value, "own_forward_seconds", Unit("s", Scale.TIME))
    column = COLUMNS.get(key)
    if column is None or report.layers is None:
        return ()
    if baseline is not None and baseline.layers is not None:
        return _list_grown(Comparison(baseline, (report,)), column)
    return _list_costliest(report.layers, column, UNITS[column])


def _list_costliest(layers: LayerTable, column: str, unit: Unit) -> tuple[str, ...]:
    whole = layers[0][column.removeprefix("own_")] or 0
    return tuple(
        f"{row['path'] or '(model)'} ({row['type']}): {scale_value(row[column], unit.name, unit.scale)}"
        + (f", {format_number(100 * row[column] / whole)} %" if whole else "")
        for row in layers.top(_NAMED, by=column)
        if row[column]
    )


class _GrownLayer(NamedTuple):
    """A layer that costs more than before; ``change`` is "added" for a new one."""

    growth: float
    path: str
    type: str
    change: str


def _list_grown(comparison: Comparison, column: str) -> tuple[str, ...]:
    unit, layers = UNITS[column], []
    for row in comparison.layers():
        growth = (row[f"other_{column}"] or 0) - (row[column] or 0)
        if row["is_leaf"] and growth > 0:
            layers.append(_GrownLayer(growth, row["other_path"], row["type"], row["change"]))
    layers.sort(key=lambda layer: -layer.growth)
    return tuple(
        f"{layer.path or '(model)'} ({layer.type}): +{scale_value(layer.growth, unit.name, unit.scale)}"
        + (", added" if layer.change == "added" else "")
        for layer in layers[:_NAMED]
    )


def _describe_peak(report: Report) -> tuple[str, ...]:
    """Return where most memory is alive, and the share of the weights; nothing for a report without a trace."""
    memory, operators = report.memory, report.operators
    if memory is None or operators is None or memory.peak_index is None:
        return ()
    peak = operators[memory.peak_index]
    most = scale_value(memory.live_bytes[memory.peak_index], "B", Scale.IEC)
    weights = scale_value(memory.weight_bytes, "B", Scale.IEC)
    where = f"{peak['layer'] or '(model)'}: most is alive after {peak['operator']}, {most} of activations and inputs"
    return (where, f"weights: {weights}")
