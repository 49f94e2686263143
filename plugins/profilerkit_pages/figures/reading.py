"""Reading reports for figures: the reports, layers and columns that they need, and why a value is incomplete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from profilerkit.render.notes import explain_incomplete
from profilerkit.render.values import KINDS, Column, write_row_value
from profilerkit.results.comparison import Comparison, require_result
from profilerkit.results.report import Report
from profilerkit.trace.records import LayerTable


def label_layer(row: Mapping[str, Any]) -> str:
    """Return the path of a layer; "(model)" for the root, whose path is empty."""
    return row["path"] or "(model)"


def one_report(result: Report | Comparison, kind: str) -> Report:
    """Return the report that a figure is of; raises `ValueError` for a comparison."""
    if isinstance(result, Comparison):
        raise ValueError(
            f"{kind} draws one model, not a comparison of {len(result.reports)}; "
            f"give one of its reports, comparison.reference.plot({kind!r}) for instance"
        )
    return list_reports(result)[0]


def one_or_two(result: Report | Comparison, kind: str) -> tuple[Report, ...]:
    """Return the reports of a figure that draws one model or two; raises `ValueError` for more."""
    reports = list_reports(result)
    if len(reports) > 2:
        raise ValueError(
            f"{kind} draws one model or two, not a comparison of {len(reports)}; "
            f"give two of them, Comparison(reports[0], (reports[1],)).plot({kind!r}) for instance"
        )
    return reports


def list_reports(result: Report | Comparison) -> tuple[Report, ...]:
    """Return the reports that a figure shows: one, or all of a comparison."""
    return require_result(result).reports


def require_layers(report: Report) -> LayerTable:
    """Return the layers of a report; raises `ValueError` if it has none."""
    layers = report.layerwise
    if not len(layers):
        raise ValueError(f"the report of {report.name} holds no layers: the model was neither traced nor timed")
    return layers


def require_column(report: Report, layers: LayerTable, name: str) -> None:
    """Raise `ValueError` if a table of layers lacks a column, or if the column has no number."""
    if name not in layers[0]:
        reason = why_missing(report, "layer_times") if "second" in name else "no such values were traced"
        raise ValueError(
            f"no column {name!r} in the layers of {report.name}: {reason}; "
            f"they have {', '.join(column for column in layers[0] if has_numbers(layers, column))}"
        )
    if not has_numbers(layers, name):
        raise ValueError(f"column {name!r} of the layers of {report.name} holds no numbers to draw")


def has_numbers(layers: LayerTable, name: str) -> bool:
    """Return whether any layer has a number in a column."""
    return any(isinstance(row[name], (int, float)) and not isinstance(row[name], bool) for row in layers)


def why_missing(report: Report, key: str) -> str:
    """Return why a report has no value of a metric, or how to get one."""
    record = report.statuses.get(key)
    if record is None:
        return f"profile the model with metrics=[{key!r}]"
    return f"{key} is {record.completeness.value}: {'; '.join(record.missing) or 'it holds no such values'}"


def explain_metric(reports: Sequence[Report], key: str) -> Iterator[str]:
    """Yield for each report the missing parts of its value of a metric, in the words of the report's notes."""
    for report in reports:
        yield from _explain(report, [key], len(reports) > 1)


def explain_column(reports: Sequence[Report], name: str) -> Iterator[str]:
    """Yield for each report the missing parts of a column of its layers: the missing parts of the column's metric."""
    whole_name = name.removeprefix("own_")
    for report in reports:
        keys = [
            key
            for key, record in report.statuses.items()
            if key == whole_name or (isinstance(record.value, LayerTable) and name in record.value.columns)
        ]
        if keys:
            yield from _explain(report, keys, len(reports) > 1)
            continue
        sign, _ = write_row_value(report.layerwise[0], whole_name)
        if sign:
            yield f"{Column.of(name).title} of {report.name}: {KINDS[sign]}, as not all operators are counted exactly"


def _explain(report: Report, keys: Iterable[str], is_named: bool) -> Iterator[str]:
    records = [report.statuses[key] for key in keys if key in report.statuses]
    for note in explain_incomplete(records):
        yield f"{report.name}: {note}" if is_named else note
