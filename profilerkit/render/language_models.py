"""Reports of language models as one page of HTML that needs nothing else: tables, notes and both figures."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .page_parts import content_hash, source, templates

if TYPE_CHECKING:
    from ..language_models.report import LanguageModelReport

__all__ = ["language_model_page"]

_FIGURES = {
    "cache_memory": "Memory against context",
    "tokens_per_second": "Tokens per second against batch, under the roof of the device",
}
#: A table: its title, the titles of its columns, its rows.
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


@dataclass(frozen=True)
class _Section:
    title: str
    tables: Sequence[Table]
    notes: Sequence[str]


def language_model_page(reports: Sequence[LanguageModelReport], comparison: Table | None = None) -> str:
    """Return a page of one report, or of several with the table that compares them first.

    The figures need matplotlib; without it, or for a report without a device, the page says why one is missing.
    """
    from ..language_models.text import report_notes, report_tables

    sections = [] if comparison is None else [_Section("", [comparison], ())]
    for report in reports:
        title = report.title if comparison is not None else ""
        sections.append(_Section(title, report_tables(report), list(report_notes(report))))
    style = source("language_models.css")
    figures, remarks = _figures(reports)
    page: str = (
        templates()
        .get_template("language_models.html")
        .render(
            title=reports[0].title if comparison is None else "Language models",
            style=style,
            style_hash=content_hash(style),
            sections=sections,
            figures=figures,
            remarks=remarks,
        )
    )
    return page


def _figures(reports: Sequence[LanguageModelReport]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the figures as pictures in the page, and why others are missing."""
    from ..figures.language_models import draw_language_models

    pictures, remarks = [], []
    for kind, name in _FIGURES.items():
        try:
            pictures.append((name, _picture(draw_language_models(reports, kind))))
        except (ImportError, ValueError) as error:
            remarks.append(f"{name}: {error}")
    return pictures, remarks


def _picture(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=144, metadata={"Software": None})
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
