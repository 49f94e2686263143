"""The layers that are responsible for the value of a metric: they cost most, or grew most.

The findings of a broken budget name these layers, so that a reader knows where to begin.
"""

from __future__ import annotations

from profilerkit.piping.quantity import Scale, format_number, scale_value
from profilerkit.render.values import Column, find_peak_sign, write_row_value
from profilerkit.results.report import Report
from profilerkit.trace.alignment import align, find_difference, require_layers
from profilerkit.trace.records import LayerTable

#: The column of the layer table that each metric is divided among layers by, by its key, and by the name of the column.
#: A metric has the column that counts the same thing: frozen layers have parameters, but no trainable ones, and the
#: bytes of a quantized layer are not in proportion to its parameters.
LAYER_COLUMNS = {
    "params": "params",
    "total_params": "params",
    "trainable_params": "trainable_params",
    "model_size": "weight_bytes",
    "macs": "macs",
    "flops": "flops",
}

#: The metrics that are explained by the time of the layers.
_TIME_METRICS = ("execution_time", "throughput")
#: The time of a layer without the layers inside it, which would be named for the same seconds again.
_OWN_TIME = "own_forward_seconds"
#: How many layers are named.
_NAMED = 3


def list_responsible(report: Report, key: str, baseline: Report | None) -> tuple[str, ...]:
    """Return the layers that cost most of a metric, or that grew most since the baseline: one text for each.

    A text is "conv1 (Conv2d): 128 MACs, 66.7 %", or with a baseline "conv1 (Conv2d): +96 MACs". The result is empty for
    a metric that no table of the report divides among layers.

    Args:
        report: The report whose value is explained.
        key: The status key of the metric.
        baseline: The report to compare with; None to explain the value itself.
    """
    if key == "memory_footprint":
        return _describe_peak(report)
    if key in _TIME_METRICS:
        return _list_slowest(report)
    column = LAYER_COLUMNS.get(key)
    if column is None or report.layers is None or not has_column(report, column):
        return ()
    if baseline is not None and has_column(baseline, column):
        return _list_most_grown(baseline, report, column)
    sign, whole = write_row_value(report.layers[0], column)
    return _list_costliest(report.layers, column, None if sign else whole)


def has_column(report: Report, column: str) -> bool:
    """Return whether the layers of a report have a column; a report may have no layers at all."""
    return report.layers is not None and column in report.layers.columns


def _list_slowest(report: Report) -> tuple[str, ...]:
    """Return the layers that the forward pass spends most time in; none for a report without times of layers."""
    record = report.statuses.get("layer_times")
    layers = None if record is None else record.value
    if not isinstance(layers, LayerTable) or _OWN_TIME not in layers.columns:  # without rows it has no columns
        return ()
    return _list_costliest(layers, _OWN_TIME, layers[0].get("forward_seconds"))


def _list_costliest(layers: LayerTable, column: str, whole: float | None) -> tuple[str, ...]:
    """Return the layers with the largest amounts in a column, each with its share of the amount of the whole model."""
    texts = []
    name = _find_own(column, layers)
    for row in layers.top(_NAMED, by=name):
        sign, amount = write_row_value(row, name)
        if amount:
            share = f", {format_number(100 * amount / whole)} %" if whole else ""
            texts.append(f"{_name_layer(row['path'], row['type'])}: {sign}{Column.of(column).show(amount)}{share}")
    return tuple(texts)


def _list_most_grown(baseline: Report, report: Report, column: str) -> tuple[str, ...]:
    """Return the layers whose own amounts in a column grew most since the baseline, and whether they are new.

    Of a column without own amounts these are innermost layers.
    """
    name = _find_own(column, require_layers(baseline), require_layers(report))
    rows = [row for row in align(baseline, report, columns=(name,)) if name != column or row["is_leaf"]]
    growths = [find_difference(row, name) or 0 for row in rows]  # None where a report does not know the number
    grown = sorted(zip(growths, rows, strict=True), key=lambda pair: pair[0], reverse=True)
    return tuple(
        f"{_name_layer(row['other_path'], row['type'])}: +{Column.of(column).show(growth)}"
        f"{', added' if row['change'] == 'added' else ''}"
        for growth, row in grown[:_NAMED]
        if growth > 0
    )


def _find_own(name: str, *tables: LayerTable) -> str:
    """Return the column of layers' own amounts, without the layers inside, if all tables have it; else the column."""
    exclusive = f"own_{name}"
    return exclusive if all(exclusive in table.columns for table in tables) else name


def _name_layer(path: str, kind: str) -> str:
    """Return a layer's name in texts: "encoder.0 (Linear)"; the path of the model itself is empty."""
    return f"{path or '(model)'} ({kind})"


def _describe_peak(report: Report) -> tuple[str, ...]:
    """Return the peak of the memory and its operator, and the weights; nothing for a report without a trace."""
    memory, operators = report.memory, report.operators
    if memory is None or operators is None or memory.peak_index is None:
        return ()
    peak = operators[memory.peak_index]
    most = f"{find_peak_sign(report)}{scale_value(memory.live_bytes[memory.peak_index], 'B', Scale.IEC)}"
    weights = scale_value(memory.weight_bytes, "B", Scale.IEC)
    where = f"{peak['layer'] or '(model)'}: most is alive after {peak['operator']}, {most} of activations and inputs"
    return (where, f"weights: {weights}")
