"""Language models as one page of HTML that needs nothing else: tables, notes and pictures."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from profilerkit_pages.page_parts import content_hash, source, templates

__all__ = ["Section", "Table", "language_model_page"]

#: The package whose folder ``page`` has the template and the style.
_PACKAGE = "profilerkit_predict"

#: A table: its title, the titles of its columns, its rows.
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


@dataclass(frozen=True)
class Section:
    """A part of the page: its title, its tables and its notes."""

    title: str
    tables: Sequence[Table]
    notes: Sequence[str] = ()


def language_model_page(
    title: str, sections: Sequence[Section], pictures: Sequence[tuple[str, bytes]], remarks: Sequence[str]
) -> str:
    """Return a page with sections, and below them pictures (a caption and the bytes of a PNG each) and remarks."""
    style = f"{source('page.css')}\n{source('language_models.css', _PACKAGE)}"
    figures = [(name, f"data:image/png;base64,{base64.b64encode(data).decode()}") for name, data in pictures]
    values = {"title": title, "sections": sections, "figures": figures, "remarks": remarks}
    template = templates(_PACKAGE).get_template("language_models.html")
    page: str = template.render(style=style, style_hash=content_hash(style), **values)
    return page
