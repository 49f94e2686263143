"""A report or comparison as CSV, a row for each metric or layer, with values in base units: for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from ..foreign_text import visible
from ..piping.outcome import Completeness, is_number
from ..results.comparison import Comparison
from ..results.report import Report, StatusRecord
from ..times.measurement import Measurement

__all__ = ["is_formula", "render", "render_layers", "write_csv"]

#: The columns of the table of metrics, in their order.
_COLUMNS = (
    *("model", "backend", "metric", "value", "unit", "low", "high", "interval", "enhancement"),
    *("completeness", "missing"),
)


def render(result: Report | Comparison) -> str:
    """Return a row for each metric of each model.

    The columns: ``model``, ``backend``, ``metric``, ``value`` in its base ``unit`` (for a measurement the median),
    ``low`` and ``high`` (the ends of its interval; for a partial count the known bounds), ``interval`` (its kind: "95 %
    interval", or "range of 3 samples, 75 %"), ``enhancement`` over the reference if neither value is partial,
    ``completeness`` and ``missing``.
    """
    rows = []
    for index, report in enumerate(result.reports):
        for record in report.statuses.values():
            cells = _list_cells(record)
            if isinstance(result, Comparison) and index:
                cells["enhancement"] = result.enhancement(record.key, index - 1)
            rows.append({"model": report.name, "backend": report.backend, **cells})
    return write_csv(_COLUMNS, rows)


def render_layers(result: Report | Comparison) -> str:
    """Return a row for each layer: every column of `Report.layerwise`, behind the ``model`` that it belongs to."""
    rows = [{"model": report.name, **row} for report in result.reports for row in report.layerwise]
    columns = dict.fromkeys(name for row in rows for name in row)
    return write_csv(columns or ["model"], rows)


def _list_cells(record: StatusRecord) -> dict[str, Any]:
    """Return the cells of a metric by their columns; a cell that it has not is left out."""
    value = record.value
    cells: dict[str, Any] = {
        "metric": record.key,
        "value": value if is_number(value) or isinstance(value, str) else record.shown,
        "unit": record.base_unit,
        "completeness": record.completeness.value,
        "missing": "; ".join(record.missing),
    }
    if isinstance(value, Measurement):
        low, high = value.interval
        cells |= {"value": value.median, "low": low, "high": high, "interval": value.interval_name}
    elif record.completeness is Completeness.PARTIAL and record.ends is not None:
        cells |= {"low": record.ends.low, "high": record.ends.high}
    return cells


def write_csv(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header; text that a spreadsheet would read as a formula gets an apostrophe."""
    target = io.StringIO()
    names = list(columns)
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(map(_write_cell, names))
    writer.writerows([_write_cell(row.get(name)) for name in names] for row in rows)
    return target.getvalue()


def _write_cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, Real):  # also numpy's
        return value
    text = visible(str(value))
    return f"'{text}" if is_formula(text) else text


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would compute a text; some take the wide signs of East Asia too."""
    return text.lstrip()[:1] in {"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"}
