"""The page of one report, or of several side by side, with figures: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from profilerkit_pages import page_parts

from .data import ReportData
from .notes import general_notes, report_notes
from .tables import list_tables
from .text_table import TextTable

#: The package whose folder ``page`` has the template and the style.
_PACKAGE = "profilerkit_predict"
_FIGURES = {
    "step_terms": "Where a step goes",
    "cache_memory": "Memory against context",
    "tokens_per_second": "Tokens per second against batch, under the roof of the device",
}


@dataclass(frozen=True)
class _Section:
    """A part of the page: its title, its tables and its notes."""

    title: str
    tables: Sequence[TextTable]
    notes: Sequence[str] = ()


def render_page(reports: Sequence[ReportData], comparison: TextTable | None = None) -> str:
    """Return a page of one report, or of several with the table that compares them first.

    The figures need matplotlib; without it, or for a report without a device, the page says why one is missing.
    """
    general = list(general_notes(reports))
    sections = [] if comparison is None else [_Section("", [comparison], general)]
    for report in reports:
        title = "" if comparison is None else report.title
        notes = [*(general if comparison is None else []), *report_notes(report)]
        sections.append(_Section(title, list(list_tables(report)), notes))
    figures, remarks = _draw_figures(reports)
    return page_parts.render_page(
        "language_models.html",
        f"{page_parts.source('page.css')}\n{page_parts.source('language_models.css', _PACKAGE)}",
        "",
        _PACKAGE,
        title=reports[0].title if comparison is None else "Language models",
        sections=sections,
        figures=figures,
        remarks=remarks,
        jumps=list(_list_jumps(sections)),
    )


def _list_jumps(sections: Sequence[_Section]) -> Iterator[tuple[str, str]]:
    """Yield the places that one can jump to, with their names: the tables of one section, or several sections."""
    if len(sections) > 1:
        for index, section in enumerate(sections):
            yield f"s{index}", section.title or "Comparison"
    else:
        for index, table in enumerate(sections[0].tables):
            yield f"s0t{index}", table.title
        yield "notes0", "Notes"
    yield "figures", "Figures"


def _draw_figures(reports: Sequence[ReportData]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the captions of figures with their pictures as addresses, and why others are missing."""
    from .figures import draw_language_models

    figures, remarks = [], []
    for kind, name in _FIGURES.items():
        if kind == "step_terms" and len(reports) > 1:  # the figure is of one report
            continue
        try:
            figures.append((name, _encode_png(draw_language_models(reports, kind))))
        except (ImportError, ValueError) as error:
            remarks.append(f"{name}: {error}")
    return figures, remarks


def _encode_png(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.set_dpi(144)
    figure.canvas.print_png(buffer, metadata={"Software": None})
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
