"""What the page of one report, or of several side by side, has on it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .html import Section, language_model_page
from .notes import general_notes, report_notes
from .step_bars import list_step_bars
from .text import list_tables
from .text_tables import TextTable

if TYPE_CHECKING:
    from .report import LanguageModelReport

__all__ = ["render_page"]

_FIGURES = {
    "cache_memory": "Memory against context",
    "tokens_per_second": "Tokens per second against batch, under the roof of the device",
}


def render_page(reports: Sequence[LanguageModelReport], comparison: TextTable | None = None) -> str:
    """Return a page of one report, or of several with the table that compares them first.

    The figures need matplotlib; without it, or for a report without a device, the page says why one is missing.
    """
    general = list(general_notes(reports))
    sections = [] if comparison is None else [Section("", [comparison], general)]
    for report in reports:
        title = "" if comparison is None else report.title
        notes = [*(general if comparison is None else []), *report_notes(report)]
        sections.append(Section(title, list(list_tables(report)), notes, list_step_bars(report)))
    pictures, remarks = _pictures(reports)
    return language_model_page(
        reports[0].title if comparison is None else "Language models", sections, pictures, remarks
    )


def _pictures(reports: Sequence[LanguageModelReport]) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Return the figures as pictures, and why others are missing."""
    from .figures import draw_language_models

    pictures, remarks = [], []
    for kind, name in _FIGURES.items():
        try:
            pictures.append((name, _png(draw_language_models(reports, kind))))
        except (ImportError, ValueError) as error:
            remarks.append(f"{name}: {error}")
    return pictures, remarks


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.set_dpi(144)
    figure.canvas.print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()
