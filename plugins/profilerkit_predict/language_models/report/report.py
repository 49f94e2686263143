"""The report of a language model on a device, and several reports side by side: models, devices, formats."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from profilerkit.arguments.checks import PATH
from profilerkit.process.encoding import printable
from profilerkit.process.files import write_text

from .comparison import tabulate_comparison
from .data import ReportData
from .notes import general_notes, report_notes
from .plain import write_report
from .tables import list_tables
from .text_table import TextTable, draw_table, wrap_lines


class Result(ABC):
    """One report, or several side by side."""

    @abstractmethod
    def _list_reports(self) -> Sequence[ReportData]:
        """Return the reports."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return all of it as values that JSON can hold, in base units: counts, bytes, seconds."""

    @abstractmethod
    def to_text(self) -> str:
        """Return its tables and notes as text."""

    def _compare(self) -> TextTable | None:
        """Return the table that compares several reports; None for one."""
        return None

    def to_html(self) -> str:
        """Return it as one page of HTML that needs nothing else, with its figures."""
        from .page import render_page

        return render_page(self._list_reports(), self._compare())

    def save(self, path: str | PathLike[str]) -> None:
        """Write all of it to a file: a page if its name ends in ``.html``, text if in ``.txt``, otherwise JSON."""
        target = str(PATH("path", path))
        if target.endswith(".html"):
            text = self.to_html()
        else:
            text = self.to_text() if target.endswith(".txt") else json.dumps(self.to_dict(), indent=2)
        write_text(target, text)

    def plot(self, kind: str = "cache_memory") -> Any:
        """Return a figure of matplotlib: "cache_memory", "step_terms" or "tokens_per_second".

        Raises `ArgumentError` for another kind, and `ImportError` if matplotlib is missing.
        """
        from .figures import draw_language_models

        return draw_language_models(self._list_reports(), kind)

    def __str__(self) -> str:
        return printable(self.to_text())


@dataclass(frozen=True)
class LanguageModelReport(ReportData, Result):
    """The memory and work of serving a language model, and the predictions for a device.

    Attributes:
        cost: The cost of a step, a function of batch, new tokens and cached tokens; "engine".
        prompt: Tokens of each prompt.
        new: Tokens that are generated for each.
        serving: The predictions for each batch size, the smallest first.
        fits: Whether and how it fits the device, for each batch size; empty without a device of known memory.
        measured: A real generation; None if none was requested.
        speculation: The tokens that are drafted.
        rate: Requests that arrive in a second; None if all prompts of a batch arrive at once.
        arrivals: The waits of requests at this rate; None without a rate, or if a figure of the device is not known.
        cache_after: Returns the bytes of the cache after so many tokens of so many sequences, by a pass of the model.
    """

    def _list_reports(self) -> tuple[ReportData]:
        return (self,)

    def to_dict(self) -> dict[str, Any]:
        return write_report(self)

    def to_text(self) -> str:
        notes = (*general_notes([self]), *report_notes(self))
        return "\n\n".join([*map(draw_table, list_tables(self)), wrap_lines(f"- {note}" for note in notes)])


@dataclass(frozen=True)
class LanguageModelComparison(Result):
    """Reports of several models, on several devices, or in several formats, in the order of the request."""

    reports: tuple[LanguageModelReport, ...]

    def _list_reports(self) -> tuple[LanguageModelReport, ...]:
        return self.reports

    def _compare(self) -> TextTable:
        return tabulate_comparison(self.reports)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "language models", "reports": [report.to_dict() for report in self.reports]}

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
