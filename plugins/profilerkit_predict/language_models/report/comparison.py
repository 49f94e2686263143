"""The table of several reports of language models side by side: models, devices, formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..engine.fitting import Fit
from ..engine.serving import Serving
from .data import ReportData
from .tables import list_serving_columns
from .text_table import Column, TextTable, join_columns, show_bytes

#: The columns that move behind the title if all rows have the same value, and their form there.
_DETAILS = {"device": "{}", "weights, cache": "{}", "batch": "batch {}"}


class _Entry(NamedTuple):
    """The subject of a row: a report at one of its batch sizes; ``fit`` is None without a known memory."""

    report: ReportData
    serving: Serving
    fit: Fit | None


def tabulate_comparison(reports: Sequence[ReportData]) -> TextTable:
    """Return a table with one row for each report and batch size."""
    entries = [
        _Entry(report, serving, fit)
        for report in reports
        for serving, fit in zip(report.serving, report.fits or [None] * len(report.serving), strict=True)
    ]
    lengths = {(report.prompt, report.new) for report in reports}
    detail = "engine"
    if len(lengths) == 1:
        detail += f", {reports[0].prompt:,} tokens of prompt and {reports[0].new:,} new"
    kept = []
    for column in _list_columns(entries, names_lengths=len(lengths) > 1):
        if column.heading in _DETAILS and len(set(column.cells)) == 1:
            detail += f", {_DETAILS[column.heading].format(column.cells[0])}"
        else:
            kept.append(column)
    return join_columns("Language models", kept, detail)


def _list_columns(entries: list[_Entry], names_lengths: bool) -> list[Column]:
    """Return all columns; ``names_lengths`` says whether the names of models have the tokens of prompts with them."""
    has_experts = any(entry.report.facts.has_experts for entry in entries)
    models = [entry.report.name for entry in entries]
    if names_lengths:
        models = [f"{one.name} ({one.prompt:,} + {one.new:,} tokens)" for one, *_ in entries]
    return [
        Column("model", models),
        Column("device", [entry.report.device.name if entry.report.device else "-" for entry in entries]),
        Column("weights, cache", [_name_formats(entry.report) for entry in entries]),
        *list_serving_columns([entry.serving for entry in entries], has_experts),
        Column("cache/token", [show_bytes(entry.report.cost.cache.bytes_per_token) for entry in entries]),
        Column("total", ["-" if entry.fit is None else show_bytes(entry.fit.memory.total) for entry in entries]),
        Column("fits", ["-" if entry.fit is None else _say_fits(entry.fit) for entry in entries]),
    ]


def _name_formats(report: ReportData) -> str:
    """Return the format of weights, and the format of the cache if it differs."""
    stored = report.cost.cache_format
    return ", ".join(dict.fromkeys((report.weights, report.facts.dtype if stored is None else stored.name)))


def _say_fits(fit: Fit) -> str:
    """Return whether it fits, else how many devices it needs."""
    if fit.memory.fits:
        return "yes"
    return "never" if fit.needed_devices is None else f"needs {fit.needed_devices:,}"
