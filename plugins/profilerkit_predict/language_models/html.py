"""Language models as one page of HTML that needs nothing else: tables, notes and pictures."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from profilerkit_pages.page_parts import join_scripts, render_page, source

from .step_bars import StepBars
from .text_tables import TextTable

__all__ = ["Section", "language_model_page"]

#: The package whose folder ``page`` has the template and the style.
_PACKAGE = "profilerkit_predict"


@dataclass(frozen=True)
class Section:
    """A part of the page: its title, its tables and its notes, and the bars of a step, which follow its first table."""

    title: str
    tables: Sequence[TextTable]
    notes: Sequence[str] = ()
    steps: Sequence[StepBars] = ()


def language_model_page(
    title: str, sections: Sequence[Section], pictures: Sequence[tuple[str, bytes]], remarks: Sequence[str]
) -> str:
    """Return a page with sections, and below them pictures (a caption and the bytes of a PNG each) and remarks."""
    style = f"{source('page.css')}\n{source('language_models.css', _PACKAGE)}"
    figures = [(name, f"data:image/png;base64,{base64.b64encode(data).decode()}") for name, data in pictures]
    script = join_scripts([source("sort.js", _PACKAGE)])
    values = {"sections": sections, "figures": figures, "remarks": remarks, "jumps": list(_list_jumps(sections))}
    return render_page("language_models.html", style, script, _PACKAGE, title=title, **values)


def _list_jumps(sections: Sequence[Section]) -> Iterator[tuple[str, str]]:
    """Yield the places that one can jump to, with their names: the tables of one section, or several sections."""
    if len(sections) > 1:
        for index, section in enumerate(sections):
            yield f"s{index}", section.title or "Comparison"
    else:
        for index, table in enumerate(sections[0].tables):
            yield f"s0t{index}", table.title
        yield "notes0", "Notes"
    yield "figures", "Figures"
