"""Several reports of language models in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .formatting import show_bytes
from .report_tables import list_serving_columns
from .text_table import Column, TextTable, join_columns

if TYPE_CHECKING:
    from .comparison import LanguageModelComparison
    from .fitting import Fit
    from .report import LanguageModelReport
    from .serving import Serving

__all__ = ["compare_in_table"]

#: The columns that stand behind the title instead where all rows have the same, and how they are written there.
_DETAILS = {"device": "{}", "weights, cache": "{}", "batch": "batch {}"}


class _Entry(NamedTuple):
    """What a row is about: a report at one of its batch sizes; without a device nothing fits."""

    report: LanguageModelReport
    serving: Serving
    fit: Fit | None


def compare_in_table(comparison: LanguageModelComparison) -> TextTable:
    """Return a table with one row for each report and batch size."""
    reports = comparison.reports
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
    return [
        Column("model", [_name_model(entry.report, names_lengths) for entry in entries]),
        Column("device", [entry.report.device.name if entry.report.device else "-" for entry in entries]),
        Column("weights, cache", [_name_formats(entry.report) for entry in entries]),
        *list_serving_columns([entry.serving for entry in entries], has_experts),
        Column("cache/token", [show_bytes(_count_cache_bytes(entry.report)) for entry in entries]),
        Column("total", ["-" if entry.fit is None else show_bytes(entry.fit.memory.total) for entry in entries]),
        Column("fits", ["-" if entry.fit is None else _say_fits(entry.fit) for entry in entries]),
    ]


def _name_model(report: LanguageModelReport, names_lengths: bool) -> str:
    return f"{report.name} ({report.prompt:,} + {report.new:,} tokens)" if names_lengths else report.name


def _name_formats(report: LanguageModelReport) -> str:
    """Return the format of weights, and that of the cache if it is another one."""
    stored = report.cost.cache_format
    return ", ".join(dict.fromkeys((report.weights, report.facts.dtype if stored is None else stored.name)))


def _count_cache_bytes(report: LanguageModelReport) -> float:
    """Return the bytes that a token adds to the cache."""
    return sum(layer.bytes_per_token for layer in report.cost.cache_layers)


def _say_fits(fit: Fit) -> str:
    """Return whether it fits, else how many devices it needs."""
    if fit.memory.fits is None:
        return "-"
    if fit.memory.fits:
        return "yes"
    return "never" if fit.needed_devices is None else f"needs {fit.needed_devices:,}"
