"""Several reports of language models side by side: models, devices, formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .fitting import Fit
from .notes import general_notes, report_notes
from .report import LanguageModelReport, Result
from .report_tables import list_serving_columns
from .serving import Serving
from .text_table import Column, TextTable, draw_table, join_columns, show_bytes, wrap_lines


@dataclass(frozen=True)
class LanguageModelComparison(Result):
    """Reports of several models, on several devices, or in several formats, in the order of the request."""

    reports: tuple[LanguageModelReport, ...]

    def to_text(self) -> str:
        """Return one row for each report and batch size, the notes that all reports have, and those of some of them."""
        titles_by_note: dict[str, list[str]] = {}
        for report in self.reports:
            for note in report_notes(report):
                titles_by_note.setdefault(note, []).append(report.title)
        of_reports = (
            note if len(titles) == len(self.reports) else f"{'; '.join(titles)}: {note}"
            for note, titles in titles_by_note.items()
        )
        notes = wrap_lines(f"- {note}" for note in (*general_notes(self.reports), *of_reports))
        return f"{draw_table(self._compare())}\n\n{notes}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "language models", "reports": [report.to_dict() for report in self.reports]}

    def _compare(self) -> TextTable:
        """Return one row for each report and batch size."""
        return _compare_in_table(self.reports)

    def _list_reports(self) -> tuple[LanguageModelReport, ...]:
        return self.reports


#: The columns that move behind the title if all rows have the same value, and their form there.
_DETAILS = {"device": "{}", "weights, cache": "{}", "batch": "batch {}"}


class _Entry(NamedTuple):
    """The subject of a row: a report at one of its batch sizes; ``fit`` is None without a known memory."""

    report: LanguageModelReport
    serving: Serving
    fit: Fit | None


def _compare_in_table(reports: Sequence[LanguageModelReport]) -> TextTable:
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


def _name_formats(report: LanguageModelReport) -> str:
    """Return the format of weights, and the format of the cache if it differs."""
    stored = report.cost.cache_format
    return ", ".join(dict.fromkeys((report.weights, report.facts.dtype if stored is None else stored.name)))


def _say_fits(fit: Fit) -> str:
    """Return whether it fits, else how many devices it needs."""
    if fit.memory.fits is None:
        return "-"
    if fit.memory.fits:
        return "yes"
    return "never" if fit.needed_devices is None else f"needs {fit.needed_devices:,}"
