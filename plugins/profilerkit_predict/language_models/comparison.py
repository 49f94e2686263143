"""Several reports of language models side by side: models, devices, precisions."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

from profilerkit.arguments.checks import PATH
from profilerkit.process.encoding import printable
from profilerkit.process.files import write_text

from .comparison_table import compare_in_table
from .report import LanguageModelReport
from .text import comparison_text, json_text

__all__ = ["LanguageModelComparison"]


@dataclass(frozen=True)
class LanguageModelComparison:
    """Reports of several models, on several devices, or in several formats; the order is that of the request."""

    reports: tuple[LanguageModelReport, ...]

    def to_text(self) -> str:
        """Return a table with a row for each report and batch size."""
        return comparison_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as values that JSON can hold, in base units."""
        return {"kind": "language models", "reports": [report.to_dict() for report in self.reports]}

    def to_html(self) -> str:
        """Return the comparison and all reports as one page of HTML that needs nothing else, with both figures."""
        from .page import render_page

        return render_page(self.reports, compare_in_table(self))

    def save(self, path: str | PathLike[str]) -> None:
        """Write all of it to a file: a page if its name ends in ``.html``, otherwise JSON."""
        target = PATH("path", path)
        write_text(target, self.to_html() if str(target).endswith(".html") else json_text(self.to_dict()))

    def plot(self, kind: str = "cache_memory") -> Any:
        """Return a figure of all reports; see `LanguageModelReport.plot`."""
        from .figures import draw_language_models

        return draw_language_models(self.reports, kind)

    def __str__(self) -> str:
        return printable(self.to_text())
