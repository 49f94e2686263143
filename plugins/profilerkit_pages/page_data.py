"""The data that a page draws by itself, as values that JSON can hold: the scripts read it key by key.

Sizes are bytes, times are seconds. Layers and operators are named by their places, counted from 0, and -1 for none.
What `page_parts.pack` makes is a list, or its distinct values and the place of each. A number that JSON lacks, such as
infinity, is a text (`columns.make_plain`).

Names come from the model. Here they are made visible; the page shows them as text and never reads them as markup.
"""

from __future__ import annotations

import json
from typing import Any

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.render.time_grids import machine_facts
from profilerkit.render.values import find_peak_sign
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report, StatusRecord
from profilerkit.times.measurement import Measurement
from profilerkit.times.percentiles import is_supported
from profilerkit.trace.records import MemoryTimeline

from .columns import make_plain
from .layer_tree import describe_layers, merge_rows
from .page_operators import add_speeds, describe_operators, describe_roofline
from .page_pairs import describe_sides
from .page_parts import pack
from .page_tables import list_tables
from .page_timeline import describe_timeline

#: The percentiles of a measurement that a page shows, in per cent.
_PERCENTILES = (5, 25, 50, 75, 95)


def page_data(result: Report | Comparison) -> dict[str, Any]:
    """Return the data that the page of a report or comparison draws.

    ``sides`` has for each model beside the first the layers of both in one tree; None if a model has no layers.
    """
    if isinstance(result, Comparison):
        sides = [describe_sides(result, index) for index in range(len(result.others))]
        return {"reports": [_describe_report(report) for report in result.reports], "sides": sides}
    return {"reports": [_describe_report(result)], "sides": []}


def embed(data: Any) -> str:
    """Return values as JSON that can stand inside a script element: nothing in it ends or opens an element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _describe_report(report: Report) -> dict[str, Any]:
    merged = merge_rows(report)
    roofline = describe_roofline(report, merged)
    layers = add_speeds(merged, roofline)
    records = report.statuses.values()
    return {
        "name": visible(report.name),
        "backend": visible(report.backend),
        "inputs": visible(report.inputs.removeprefix("ModelInputs")),  # in words: "(x: float32 [1, 3, 224, 224])"
        "layers": describe_layers(layers),  # without names if the model was not traced
        "operators": describe_operators(report, layers),
        "tables": list(list_tables(report, layers)),
        "timeline": describe_timeline(report, layers),  # None without times of operators
        "memory": None if report.memory is None else _describe_memory(report, report.memory),
        "roofline": roofline,
        "metrics": {visible(record.key): _describe_metric(record) for record in records},
        "measurements": [
            _describe_measurement(record, record.value) for record in records if isinstance(record.value, Measurement)
        ],
    }


def _describe_memory(report: Report, memory: MemoryTimeline) -> dict[str, Any] | None:
    """Return the bytes that are alive during a pass; None if they are not known."""
    if not memory.live_bytes:
        return None
    return {
        "sign": find_peak_sign(report),  # of the bytes at the peak: "≤ " for an upper bound
        "weights": memory.weight_bytes,
        "input": memory.input_bytes,
        "live": pack(list(memory.live_bytes)),  # after each operator, without the weights
        "peak": -1 if memory.peak_index is None else memory.peak_index,  # -1: before the first operator
        "parts": {visible(name): size for name, size in memory.parts.items() if size},
        "note": visible(memory.note),
        "missing": [visible(line) for line in memory.missing],
    }


def _describe_metric(record: StatusRecord) -> dict[str, Any]:
    """Return a metric as a download has it: a number in its base unit, of a measurement the median; else its text."""
    metric: dict[str, Any] = {"value": None, "unit": "", "completeness": record.completeness.value}
    if is_number(record.value):
        is_measured = isinstance(record.value, Measurement)
        metric["value"] = make_plain(float(record.value) if is_measured else record.value)
        metric["unit"] = visible(record.base_unit)
    elif record.value is not None:
        metric["value"] = visible(record.shown)
    if record.missing:
        metric["missing"] = [visible(line) for line in record.missing]
    return metric


def _describe_measurement(record: StatusRecord, measured: Measurement) -> dict[str, Any]:
    """Return a metric that was measured, with its samples in the order in which they were taken."""
    return {
        "key": visible(record.key),
        "title": visible(record.friendly_name),
        "unit": visible(record.base_unit),
        "scale": record.scale.value,
        "samples": [make_plain(sample) for sample in measured.samples],
        "warmup": [make_plain(sample) for sample in measured.warmup],  # the first samples, which do not count
        "interval": [make_plain(end) for end in measured.interval],
        "intervalName": measured.interval_name,
        "percentiles": _compute_percentiles(measured),
        "conditions": [visible(f"{name} {fact}") for name, fact in machine_facts(measured.conditions).items()],
    }


def _compute_percentiles(measured: Measurement) -> dict[str, Any]:
    """Return the percentiles by per cent; None for a percentile with too few samples."""
    samples = len(measured.samples)
    return {
        str(percent): make_plain(measured.percentile(percent)) if is_supported(percent, samples) else None
        for percent in _PERCENTILES
    }
